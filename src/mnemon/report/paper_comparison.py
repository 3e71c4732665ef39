"""The paper's cells beside ours: difference, interval, whether they overlap, and what is behind each."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from mnemon.experiments.record import mean_seconds
from mnemon.paper import cells, comparison
from mnemon.paper.cells import Cell
from mnemon.paper.claims.entries import RULES, check
from mnemon.paper.comparison import ABOVE, MORE_LOST, NOT_RUN
from mnemon.paper.results import CellRuns, Results
from mnemon.render import names

MEANS = {
    "overlap": "the intervals overlap",
    "good": "the intervals do not overlap; within reach of the paper’s, or better",
    "off": "neither do the intervals overlap, nor is ours as good",
}
PARTS = ((1, "Split streams: the paper’s Tables 1 and 2"), (3, "Loss and classifier: Table 3"), (4, "Smooth: Table 4"))


class ComparedCell(NamedTuple):
    """A cell that has records here; forgetting where the paper's tables have it."""

    cell: Cell
    found: CellRuns
    lost: tuple[Cell, CellRuns] | None


def paper_comparison(results: Results) -> str:
    """The section; nothing where no record is of a cell of the paper."""
    parts = [(title, _entries(number, results)) for number, title in PARTS]
    if not any(entries for _, entries in parts):
        return ""
    shown = "\n".join(_part(title, entries) for title, entries in parts if entries)
    return f"""<section id="paper">
<h2>Against the paper</h2>
<p class="headline">{escape(_headline(results))}</p>
{shown}
{_claims(results)}
<p class="note below">Percent, mean ± half-width of the 95 % interval. ✓ the intervals overlap; ≥ they do not, and ours is at
least 98.5 % of the paper’s (≤: of forgetting, lower; {ABOVE}: at most {MORE_LOST:g} points above); ✗ neither; a
single run has no interval and no mark. † not in the paper. * quoted by the paper. A record counts if it was made with the
hyper-parameters the cell has today; others are under their stream below.</p>
</section>"""


def _headline(results: Results) -> str:
    every = [cell for number, _ in PARTS for cell in cells.cells(number) if cell.paper]
    judged = [verdict for cell in every if (verdict := comparison.verdict(cell, results.of(cell)))]
    said = f"{len(judged)} of the {len(every)} accuracies the paper prints were run here: "
    said += f"{judged.count('overlap')} with overlapping intervals"
    if judged.count("good"):
        said += f", {judged.count('good')} at least as good without"
    return said + (f", {judged.count('off')} below." if judged.count("off") else ".")


def _entries(number: int, results: Results) -> list[ComparedCell]:
    found = []
    for cell in cells.cells(number):
        there = results.of(cell)
        if there.values:
            lost = None
            if number == 1 and not cell.row.bound:
                second = Cell(2, cell.row, cell.stream)
                lost = (second, results.of(second))
            found.append(ComparedCell(cell, there, lost))
    return sorted(found, key=lambda entry: cells.streams(number).index(entry.cell.stream))  # row by row within a stream


def _part(title: str, entries: Sequence[ComparedCell]) -> str:
    forgetting = any(entry.lost for entry in entries)
    heads = ['<th scope="col"><span class="aside">Method</span></th>']
    for name in ["accuracy", "forgetting"] if forgetting else ["accuracy"]:
        heads.append(f'<th scope="col" class="theirs">{name}, paper</th>')
        heads += [f'<th scope="col">{what}</th>' for what in ("ours", "difference")]
    heads += [f'<th scope="col">{what}</th>' for what in ("runs", "s / run", "device")]
    width = len(heads)
    rows: list[str] = []
    for stream in dict.fromkeys(entry.cell.stream for entry in entries):
        mine = [entry for entry in entries if entry.cell.stream == stream]
        rows.append(f'<tr class="over"><th scope="rowgroup" colspan="{width}">{escape(names.stream(stream))}</th></tr>')
        rows += [_row(entry, forgetting) for entry in mine]
        rows.append(f'<tr class="behind"><td colspan="{width}">{_behind(mine)}</td></tr>')
    return f"""<h3 class="first">{title}</h3>
<div class="scroll" role="region" aria-label="{title}" tabindex="0"><table class="against">
<caption class="aside">{title}: the paper’s numbers and ours</caption>
<thead><tr>{"".join(heads)}</tr></thead>
<tbody>
{chr(10).join(rows)}
</tbody></table></div>"""


def _row(entry: ComparedCell, forgetting: bool) -> str:
    row, found = entry.cell.row, entry.found
    cells_ = [f'<th scope="row">{escape(row.label)}</th>', *_numbers(entry.cell, found)]
    if forgetting:
        cells_ += _numbers(*entry.lost) if entry.lost else ['<td class="theirs"></td>', "<td></td>", "<td></td>"]
    every = found.records.values()
    seconds = mean_seconds(every)
    devices = " / ".join(dict.fromkeys(names.text(r.get("device", "")) for r in every))
    mean = "–" if seconds is None else names.seconds(seconds)
    cells_ += [f"<td>{len(found.values)}</td>", f"<td>{mean}</td>", f"<td>{escape(devices)}</td>"]
    opening = '<tr class="bound">' if row.bound else "<tr>"
    return opening + "".join(cells_) + "</tr>"


def _numbers(cell: Cell, found: CellRuns) -> list[str]:
    verdict = comparison.verdict(cell, found)
    by = comparison.difference(cell, found)
    apart = ""
    if by is not None:
        mark = comparison.mark(cell, found)
        apart = f'{names.fixed(by, signed=True)} <span class="{verdict}" title="{MEANS[verdict]}">{mark}</span>'
    return [
        f'<td class="theirs">{quiet_interval(comparison.theirs(cell))}</td>',
        f"<td>{quiet_interval(comparison.ours(found))}</td>",
        f"<td>{apart}</td>",
    ]


def quiet_interval(written: str) -> str:
    """88.79 ± 0.26 as HTML, the interval less prominent than the mean."""
    mean, sign, half = written.partition(" ± ")
    return f'{escape(mean)} <span class="pm">± {escape(half)}</span>' if sign else escape(mean)


def _claims(results: Results) -> str:
    """The claims that the records here speak to."""
    known = [row for row in check(results).parts[0].rows if row[1] != NOT_RUN]
    if not known:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{escape(c)}</th><td>{escape(v)}</td><td>{escape(n)}</td></tr>' for c, v, n in known
    )
    return f"""<h3 class="first">What the paper’s text claims</h3>
<div class="scroll" role="region" aria-label="Claims" tabindex="0"><table class="claims">
<caption class="aside">Claims of the paper’s text, and what the records here say</caption>
<thead><tr><th scope="col">The paper says</th><th scope="col">Our records</th><th scope="col">Number</th></tr></thead>
<tbody>{rows}</tbody></table></div>
<p class="quiet below">{escape(RULES)}</p>"""


def _behind(entries: Sequence[ComparedCell]) -> str:
    """The command and the runs of each cell."""
    items = []
    for entry in entries:
        every = list(entry.found.records.values())
        device = "cpu" if all(r.get("device") == "cpu" for r in every) else "cuda"
        runs = " ".join(escape(names.text(r["run"])) for r in every)
        command = escape(entry.cell.command(device=device))
        items.append(f"<dt>{escape(entry.cell.row.name)}</dt><dd><code>{command}</code><br>{runs}</dd>")
    return f"<details><summary>Commands and records</summary><dl>{''.join(items)}</dl></details>"
