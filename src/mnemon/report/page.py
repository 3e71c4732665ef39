"""The page: what the template says of each section. The template escapes everything that comes from a record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.experiments.record import mean_seconds
from mnemon.experiments.stats import Estimate
from mnemon.paper import numbers
from mnemon.paper.results import Results
from mnemon.render import html, names
from mnemon.render.svg import Pen
from mnemon.report import protocol_summary
from mnemon.report.commands import commands
from mnemon.report.figures import figures
from mnemon.report.groups import METRICS, Group, Section, read
from mnemon.report.headline import headline
from mnemon.report.pairs import by_variant, standing
from mnemon.report.paper_comparison import paper_comparison
from mnemon.streams.kinds import is_task_free

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
    shown = [_section(section, pen) for section in sections]
    streams = list(dict.fromkeys(s.title for s in sections))
    return html.page(
        "report.html",
        title=f"{streams[0] if len(streams) == 1 else names.plural(len(streams), 'stream')}: mnemon report",
        runs=len({r["run"] for s in sections for g in s.groups for r in g.records}),
        streams=_listed(streams),
        paper=paper_comparison(results),
        sections=shown,
    )


def _listed(items: Sequence[str]) -> str:
    """By name; or how many, where they are too many to read: the contents list them all."""
    if len(items) > 5:
        return names.plural(len(items), "stream")
    return items[0] if len(items) == 1 else f"{'; '.join(items[:-1])} and {items[-1]}"


def _section(section: Section, pen: Pen) -> dict[str, Any]:
    """What templates/report.html says of a stream."""
    made = list(figures(section, pen))
    return {
        "title": section.title,
        "split": section.split,
        "split_name": "validation samples" if section.split == "valid" else f"{names.text(section.split)} samples",
        "headline": headline(section),
        "protocol": protocol_summary.protocol(section),
        "settings": [(g.name, protocol_summary.settings(g)) for g in section.groups if g.first["options"]],
        "commands": commands(section),
        "figures": made,
        "absent": " ".join(figure.caption for figure in made if not figure.panels),
        **_table(section),
    }


def _table(section: Section) -> dict[str, Any]:
    """The rows in front, the others, and the titles above them."""
    groups = section.groups
    metrics = [name for name in METRICS if any(g.estimate(name) for g in groups)]
    theirs = [_reported(section, g) for g in groups]
    with_accuracy, with_forgetting = any(theirs), any(p is not None and p.forgetting is not None for p in theirs)
    best = {name: _best(groups, name) for name in metrics}
    titles = [METRICS[name] for name in metrics]
    if is_task_free(section.protocol.get("kind")):
        titles[0] = "Final accuracy"  # as the paper has it: there are no tasks to average over
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}  # those in front, the others
    front = _front(groups)
    for group, paper in zip(groups, theirs, strict=True):
        values = [(found := group.estimate(name), _is_best(found, best[name], group)) for name in metrics]
        in_paper = [paper.accuracy if paper else None] * with_accuracy
        in_paper += [paper.forgetting if paper else None] * with_forgetting
        runs = len(group.records)
        row = {"group": group, "bound": _bound(group), "estimates": values, "runs": "1 run" if runs == 1 else runs}
        rows[id(group) in front].append(row | {"seconds": _seconds(group), "theirs": in_paper})
    paper_titles = ["Paper: accuracy"] * with_accuracy + ["Paper: forgetting"] * with_forgetting
    about = _about(section, with_accuracy)
    return {"titles": titles, "paper_titles": paper_titles, "front": rows[True], "others": rows[False], "about": about}


def _is_best(found: Estimate | None, best: str | None, group: Group) -> bool:
    return found is not None and best == names.fixed(found.mean) and not _bound(group)


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


def _best(groups: Sequence[Group], metric: str) -> str | None:
    """The best mean as it is written, so that equal figures are equally bold; none where nothing is compared."""
    found = [e.mean for g in groups if not _bound(g) and (e := g.estimate(metric)) is not None]
    best = min if metric == "average_forgetting" else max
    return names.fixed(best(found)) if len(found) > 1 else None


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
