"""The page: sections of groups as HTML. Everything that comes from a record is escaped here or drawn as SVG text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from mnemon import files
from mnemon.experiments.record import mean_seconds
from mnemon.experiments.stats import Estimate
from mnemon.paper import numbers
from mnemon.paper.results import Results
from mnemon.render import names
from mnemon.render.palette import Style
from mnemon.render.style import CSS
from mnemon.render.svg import DASHES, Pen
from mnemon.report import protocol_summary
from mnemon.report.commands import commands
from mnemon.report.figure import Figure, Panel
from mnemon.report.figures import figures
from mnemon.report.groups import Group, Section, read
from mnemon.report.headline import headline
from mnemon.report.pairs import by_variant, standing
from mnemon.report.paper_comparison import paper_comparison, quiet_interval
from mnemon.streams.kinds import is_task_free

METRICS = (
    ("average_accuracy", "Average Accuracy", max),
    ("average_forgetting", "Average Forgetting", min),
    ("anytime_accuracy", "Anytime accuracy", max),
    ("learning_accuracy", "Learning accuracy", max),
)
READABLE = 50  # rows of a table
BEST = 5  # settings of a method, where there are more rows than that


def write(folder: Path | str, out: Path | str | None = None) -> Path:
    """Write FOLDER/report.html (or `out`) from the folder's records: whole or not at all, and always the same bytes."""
    path = Path(out) if out is not None else Path(folder) / "report.html"
    text = page(read(Path(folder)), Results.read(Path(folder))).encode()
    with files.explained(f"the report could not be written to {path}"):
        files.write(path, text)
    return path


def page(sections: Sequence[Section], results: Results) -> str:
    pen = Pen()
    body = "\n".join(_section(section, pen, number) for number, section in enumerate(sections, 1))
    runs = {r["run"] for s in sections for g in s.groups for r in g.records}
    paper = paper_comparison(results)
    streams = list(dict.fromkeys(s.title for s in sections))
    title = (
        f"{streams[0]}: mnemon report"
        if len(streams) == 1
        else f"{names.plural(len(streams), 'stream')}: mnemon report"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="generator" content="mnemon" />
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>
<body>
<header>
<h1>Learning from a stream, class after class</h1>
<p class="quiet">{names.plural(len(runs), "run")} on {escape(_listed(streams))}. The samples come in the order of the
stream; the classifier is tested on all classes it has met, and never told which task a sample is from.</p>
{_contents(sections, bool(paper))}</header>
<main>
{paper}
{body}
</main>
<footer>
<section>
<h2>How the numbers are made</h2>
<p><b>Average Accuracy</b> is the mean over tasks of the accuracy after the last one; higher is better. <b>Average
Forgetting</b> is, for each task but the last, the best accuracy it had before the end less the accuracy at the end,
and of these the mean; lower is better. <b>Anytime accuracy</b> is the mean of the accuracy curve. <b>Learning
accuracy</b> is the mean accuracy on each task right after it was learned. All in percent of test samples.</p>
<p>Values are means over runs with different seeds, ± the half-width of the 95 % interval of the mean (Student’s t). A
single run has no interval. Seeds are paired: with the same data and class order every method sees the same stream for the
same seed.</p>
<p class="quiet">Made by mnemon from records.jsonl. This page is one file and loads nothing.</p>
</section>
</footer>
</body>
</html>
"""


def _listed(items: Sequence[str]) -> str:
    """By name; or how many, where they are too many to read: the contents list them all."""
    if len(items) > 5:
        return names.plural(len(items), "stream")
    return items[0] if len(items) == 1 else f"{'; '.join(items[:-1])} and {items[-1]}"


def _contents(sections: Sequence[Section], with_paper: bool) -> str:
    if len(sections) == 1:
        return ""
    items = '<li><a href="#paper">Against the paper</a></li>' * with_paper
    items += "".join(
        f'<li><a href="#stream-{number}">{escape(s.title)}{" (validation)" if s.split == "valid" else ""}</a></li>'
        for number, s in enumerate(sections, 1)
    )
    return f'<nav aria-label="Streams"><ul>{items}</ul></nav>\n'


def _section(section: Section, pen: Pen, number: int) -> str:
    tag = "" if section.split == "test" else f' <span class="tag">{_split_name(section.split)}</span>'
    made = list(figures(section, pen))
    shown = [_figure(figure) for figure in made if figure.panels]
    absent = " ".join(figure.caption for figure in made if not figure.panels)
    if absent:
        shown.append(f'<p class="note absent">{escape(absent)}</p>')
    return f"""<section id="stream-{number}">
<h2>{escape(section.title)}{tag}</h2>
<p class="headline">{escape(headline(section))}</p>
{_protocol(section)}
{_table(section)}
{chr(10).join(shown)}
</section>"""


def _split_name(split: str) -> str:
    return "validation samples" if split == "valid" else f"{escape(names.text(split))} samples"


def _protocol(section: Section) -> str:
    terms = "".join(
        f"<div><dt>{term}</dt><dd>{escape(value)}</dd></div>" for term, value in protocol_summary.protocol(section)
    )
    settings = "".join(
        f"<div><dt>{escape(g.name)}</dt><dd>{escape(protocol_summary.settings(g))}</dd></div>"
        for g in section.groups
        if g.first["options"]
    )
    made = commands(section)
    if made:
        lines = escape("\n".join([*made, "mnemon report out/runs"]))
        again = f"<details><summary>Make these runs again</summary><pre><code>{lines}</code></pre></details>"
    else:
        again = (
            '<p class="note">These runs were made with mnemon.run, from arrays, a network or a method of one’s own, which '
            "no command knows.</p>"
        )
    return f"""<dl>{terms}</dl>
<details><summary>Hyper-parameters</summary><dl>{settings}</dl></details>
{again}"""


def _table(section: Section) -> str:
    groups = section.groups
    metrics = [m for m in METRICS if any(g.estimate(m[0]) for g in groups)]
    theirs = [_reported(section, g) for g in groups]
    with_accuracy, with_forgetting = any(theirs), any(p is not None and p.forgetting is not None for p in theirs)
    best = {name: _best(groups, name, choose) for name, _, choose in metrics}
    titles = [title for _, title, _ in metrics]
    if is_task_free(section.protocol.get("kind")):
        titles[0] = "Final accuracy"  # as the paper has it: there are no tasks to average over
    head = '<th scope="col">Method</th>' + "".join(f'<th scope="col">{title}</th>' for title in titles)
    head += '<th scope="col">Runs</th><th scope="col">Seconds a run</th>'
    if with_accuracy:
        head += '<th scope="col" class="theirs">Paper: accuracy</th>'
    if with_forgetting:
        head += '<th scope="col" class="theirs">Paper: forgetting</th>'
    rows: dict[bool, list[str]] = {True: [], False: []}  # those in front, the others
    front = _front(groups)
    for group, paper in zip(groups, theirs, strict=True):
        cells = [f'<th scope="row">{_swatch(group.style)}{escape(group.name)}</th>']
        for name, _, _ in metrics:
            found = group.estimate(name)
            strong = (
                ' class="best"'
                if found is not None and best[name] == names.fixed(found.mean) and not _bound(group)
                else ""
            )
            cells.append(f"<td{strong}>{_value(found)}</td>")
        runs = len(group.records)
        cells.append(f"<td>{'1 run' if runs == 1 else runs}</td><td>{_seconds(group)}</td>")
        if with_accuracy:
            cells.append(f'<td class="theirs">{_value(paper.accuracy if paper else None)}</td>')
        if with_forgetting:
            cells.append(f'<td class="theirs">{_value(paper.forgetting if paper else None)}</td>')
        opening = '<tr class="bound">' if _bound(group) else "<tr>"
        rows[id(group) in front].append(f"{opening}{''.join(cells)}</tr>")

    def table(label: str, rows: list[str]) -> str:
        return f"""<div class="scroll" role="region" aria-label="{label}, {escape(section.title)}" tabindex="0"><table>
<caption class="aside">{label} on {escape(section.title)}, {_split_name(section.split)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{chr(10).join(rows)}
</tbody></table></div>"""

    more = names.plural(len(rows[False]), "more setting")
    others = (
        f"<details><summary>{more}</summary>{table('Other settings', rows[False])}</details>" if rows[False] else ""
    )
    return f"""<h3 class="first">Results</h3>
{table("Results", rows[True])}
{others}<p class="note below">{escape(_about(section, with_accuracy))}</p>"""


def _front(groups: Sequence[Group]) -> set[int]:
    """Ids of all groups, where they can be read; else of each variant the standing settings and the best of the others, as
    after a search."""
    most = len(groups) if len(groups) <= READABLE else BEST
    front = set()
    for variant in by_variant(groups).values():
        first = standing(variant)
        front |= {id(g) for g in sorted(variant, key=lambda g: (g is not first, -g.accuracy))[:most]}
    return front


def _about(section: Section, with_paper: bool) -> str:
    several = any(len(g.records) > 1 for g in section.groups)
    said = "Percent, " + ("mean ± half-width of the 95 % interval over runs." if several else "one run each.")
    if len([g for g in section.groups if not _bound(g)]) > 1:
        said += " Bold: the best of a column"
        said += ", the i.i.d. bounds aside." if any(_bound(g) for g in section.groups) else "."
    if with_paper:
        said += f" Shaded: what the paper reports for the same cell, {numbers.RUNS} runs."
    if section.repeated:
        said += f" Left out: {names.plural(section.repeated, 'earlier record')} of the same settings and seed."
    return said


def _bound(group: Group) -> bool:
    return group.variant.method in names.UPPER_BOUNDS


def _best(groups: Sequence[Group], metric: str, choose: Callable[[list[float]], float]) -> str | None:
    """The best mean as it is written, so that equal figures are equally bold; none where nothing is compared."""
    found = [e.mean for g in groups if not _bound(g) and (e := g.estimate(metric)) is not None]
    return names.fixed(choose(found)) if len(found) > 1 else None


def _value(value: Estimate | None) -> str:
    if value is None or math.isnan(value.mean):
        return '<span class="pm" title="not defined">–</span>'
    return quiet_interval(value.text())


def _seconds(group: Group) -> str:
    mean = mean_seconds(group.records)
    return "–" if mean is None else names.seconds(mean)


def _reported(section: Section, group: Group) -> numbers.Reported | None:
    """The paper's cell, where ours is the same: on the test samples, in natural order, with the same memory."""
    first = group.first
    memory = first.get("memory_size") or 0
    if section.split != "test" or first.get("order", "natural") != "natural":
        return None
    if memory not in (0, numbers.memory_size(section.stream)):
        return None
    method, loss, classifier = group.variant
    return numbers.reported(method, section.stream, loss, classifier)


def _swatch(style: Style) -> str:
    """The group's line, as the figures draw it."""
    pattern = DASHES[style.dash % len(DASHES)]
    dash = "" if isinstance(pattern, str) else f' stroke-dasharray="{" ".join(str(2 * d) for d in pattern[1])}"'
    line = f'<path d="M0 6h30" stroke="var(--s{style.colour})" stroke-width="{5 if style.colour == 0 else 4}"{dash} />'
    return f'<svg class="swatch" viewBox="0 0 30 12" aria-hidden="true">{line}</svg>'


def _figure(figure: Figure) -> str:
    panels = "".join(_panel(panel) for panel in figure.panels)
    if figure.legend:
        items = "".join(
            f"<li>{_swatch(group.style)}{escape(group.name)}<b>{value}</b></li>" for group, value in figure.legend
        )
        panels += f'<ul class="legend" aria-label="Accuracy at the end, percent">{items}</ul>'
    return f"""<figure class="{figure.kind}">
<h3>{figure.title}</h3>
<div class="panels">{panels}</div>
<figcaption>{escape(figure.caption)}</figcaption>
</figure>"""


def _panel(panel: Panel) -> str:
    swatch = _swatch(panel.group.style) if panel.group else ""
    heading = f"<h4>{swatch}{escape(panel.heading)}</h4>" if panel.heading else ""
    return f'<div class="panel">{heading}{panel.svg}</div>'
