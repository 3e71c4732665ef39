"""The look of the page: quiet type, one accent, colours that most colour-blind readers can tell apart."""

LIGHT = """
  --paper: #fdfdfb; --text: #20242a; --muted: #656b73; --rule: #dfdfd8; --wash: #f4f4ef;
  --s0: #1a5fb0; --s1: #cc4e0f; --s2: #0a8268; --s3: #96700a; --s4: #a8488a; --s5: #3c95c2; --s6: #7d5a3c;
  --s7: #6a63b8; --s8: #80868d;
"""
DARK = """
  --paper: #15181c; --text: #e4e5e2; --muted: #9ba1a8; --rule: #32373d; --wash: #1d2126;
  --s0: #74aef2; --s1: #f08a4b; --s2: #4fc3a1; --s3: #d9b44a; --s4: #e08cc4; --s5: #8fd0ea; --s6: #c79b76;
  --s7: #a9a3ef; --s8: #8b9198;
"""

CSS = (
    ":root { color-scheme: light dark;"
    + LIGHT
    + "}\n@media (prefers-color-scheme: dark) { :root {"
    + DARK
    + "} }\n"
    + """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--text); font: 16px/1.55 system-ui, "Segoe UI", Roboto,
  "Helvetica Neue", "Liberation Sans", Arial, sans-serif; overflow-wrap: break-word; }
main, header, footer { max-width: 71rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 3.5rem; }
footer { padding-top: 1rem; padding-bottom: 4rem; }
h1, h2, .headline { font-family: Charter, "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, "Liberation Serif",
  serif; font-weight: 600; line-height: 1.2; text-wrap: balance; }
h1 { font-size: 2.1rem; margin: 0 0 .4rem; }
h2 { font-size: 1.75rem; margin: 0 0 1rem; }
h3 { font-size: 1.02rem; margin: 0 0 .9rem; font-weight: 600; }
h3.first { margin-top: 2.4rem; }
p { max-width: 46rem; margin: 0 0 1rem; }
a { color: var(--s0); text-underline-offset: .15em; }
.quiet, figcaption, .note { color: var(--muted); font-size: .9rem; line-height: 1.5; }
.tag { font: 600 .72rem/1 system-ui, sans-serif; letter-spacing: .06em; text-transform: uppercase; color: var(--s1);
  border: 1px solid; border-radius: 1em; padding: .3em .75em; margin-left: .6rem; vertical-align: .3em;
  white-space: nowrap; }
nav ul { list-style: none; margin: 1.2rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; }
section { border-top: 1px solid var(--rule); margin-top: 2.5rem; padding-top: 2.5rem; }
.headline { font-size: 1.34rem; font-weight: 400; line-height: 1.45; max-width: 50rem; margin-bottom: 1.8rem;
  border-left: 3px solid var(--s0); padding-left: 1.1rem; text-wrap: pretty; }

dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 14.5rem), 1fr)); gap: .9rem 1.6rem;
  margin: 0 0 1.2rem; font-size: .88rem; line-height: 1.4; }
dt { color: var(--muted); font-size: .8rem; }
dd { margin: 0; overflow-wrap: anywhere; }
details { margin: 0 0 .6rem; font-size: .88rem; }
summary { cursor: pointer; color: var(--s0); width: fit-content; }
details dl { margin-top: .8rem; }
pre { background: var(--wash); padding: .9rem 1.1rem; border-radius: 4px; overflow-x: auto; margin: .7rem 0 1rem;
  font: .82rem/1.7 ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }

.scroll { overflow-x: auto; position: relative; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
.aside { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.below { margin-top: .7rem; max-width: none; }
th, td { padding: .42rem 0 .42rem .85rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
thead th { font-weight: 500; color: var(--muted); font-size: .82rem; line-height: 1.3; vertical-align: bottom;
  white-space: normal; min-width: 4.6rem; }
th:first-child { text-align: left; padding-left: 0; font-weight: 500; min-width: 9rem; }
tbody th { white-space: normal; text-wrap: pretty; }
tbody tr:last-child > * { border-bottom-color: currentColor; }
thead tr > * { border-bottom-color: currentColor; }
td .pm { color: var(--muted); font-size: .86em; }
td.best { font-weight: 700; }
tr.bound > * { color: var(--muted); }
td.theirs, th.theirs { background: var(--wash); padding-right: .6rem; padding-left: .6rem; }
td:has(+ .theirs), th:has(+ .theirs) { padding-right: .8rem; }
.against tr.over th { padding-top: 1.1rem; font-weight: 600; text-align: left; }
.against tr.over th, .against tr.behind td { background: none; }
.against tr.behind td { text-align: left; white-space: normal; padding-left: 0; border-bottom-color: currentColor; }
.against tr.behind details { margin: 0; font-size: .95em; position: sticky; left: 0;
  max-width: min(68rem, calc(100vw - 4rem)); }
.against tr.behind dl { display: block; margin: .6rem 0 .4rem; }
.against tr.behind dd { margin: .1rem 0 .7rem; color: var(--muted); font-size: .92em; }
.against code { color: var(--text); font: .96em ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; }
@media (max-width: 60rem) {
  .against th[scope=row] { position: sticky; left: 0; background: var(--paper); box-shadow: 0 1px var(--rule); z-index: 1; }
}
.against .overlap { color: var(--s2); } .against .off { color: var(--s1); } .against .good { color: var(--muted); }
.claims th, .claims td { text-align: left; white-space: normal; vertical-align: top; }
.claims td { min-width: 7rem; } .claims td:last-child { min-width: 16rem; } .claims th:first-child { min-width: 14rem; }
svg.swatch { width: 1.5rem; height: .6rem; margin-right: .55rem; vertical-align: .08em; flex: none; }

figure { margin: 2.8rem 0 0; break-inside: avoid; }
figcaption { max-width: 46rem; margin-top: .9rem; }
.absent { margin-top: 2.8rem; }
.panels { display: grid; gap: 1.2rem 1.8rem; grid-template-columns: repeat(auto-fill, minmax(min(100%, 14rem), 1fr)); }
.scores .panels, .probability .panels { grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.confusion .panels { grid-template-columns: repeat(auto-fill, minmax(min(100%, 13.5rem), 1fr)); }
.scores .panel, .probability .panel { max-width: 36rem; }
.panel { break-inside: avoid; min-width: 0; }
.panel h4 { font-size: .86rem; font-weight: 500; margin: 0 0 .35rem; }
.curves .panels { grid-template-columns: minmax(0, 5fr) minmax(13rem, 2fr); align-items: center; }
.legend { list-style: none; margin: 0; padding: 0; font-size: .9rem; font-variant-numeric: tabular-nums; }
.legend li { display: flex; align-items: baseline; padding: .22rem 0; }
.legend b { margin-left: auto; padding-left: 1rem; font-weight: 500; }
@media (max-width: 44rem) {
  .claims thead { display: none; }
  .claims tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--rule); }
  .claims th, .claims td { display: block; border: 0; padding: .1rem 0; min-width: 0 !important; }
  .claims td:nth-child(2) { color: var(--muted); }
}
@media (max-width: 44rem) { .curves .panels { grid-template-columns: minmax(0, 1fr); } }
@media (max-width: 30rem) {
  main, header, footer { padding: 0 1rem; }
  header { padding-top: 2rem; }
  .tasks .panels, .confusion .panels { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem .8rem; }
  dl { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .8rem 1rem; }
  .headline { font-size: 1.16rem; }
}
svg.plot { display: block; width: 100%; height: auto; overflow: visible; }
svg.plot * { stroke-linejoin: round; stroke-linecap: butt; }
@media print {
  :root { """
    + LIGHT
    + """ }
  body { font-size: 10.5pt; background: none; }
  header { padding-top: 0; }
  section { break-before: page; border: 0; margin: 0; padding: 0; }
  section:first-of-type { break-before: auto; padding-top: 1.5rem; }
  pre { white-space: pre-wrap; }
  details::details-content { content-visibility: visible; height: auto; }
  nav { display: none; }
}
"""
)
