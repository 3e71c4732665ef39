"""The results as a table for one's own paper or spreadsheet: Markdown, LaTeX or CSV, by the ending of the file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from mnemon import files
from mnemon.errors import MnemonError, unknown
from mnemon.experiments.record import mean_seconds
from mnemon.experiments.stats import Estimate
from mnemon.render import markup, names
from mnemon.render.tables import Part, Table, headings
from mnemon.report.groups import METRICS, Group, Section, own, read
from mnemon.report.pairs import difference, first_comparable, obstacle, ranked
from mnemon.streams.kinds import is_task_free

# Columns for people where a run has them: what was asked for, or the stream is about.
FURTHER = ("area_under_curve", "prequential_accuracy", "probe_accuracy")
ENDINGS = (".md", ".tex", ".csv")


def write(folder: Path | str, path: Path | str, against: str | None = None) -> Path:
    """The records of a folder, a line for each group of runs that differ in nothing but their seed. `against` is
    METHOD[:LOSS][+CLASSIFIER]: every line then has its difference from that one, seed by seed."""
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise MnemonError(f"a table is written as {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, not as {path.name!r}.")
    sections = read(Path(folder))
    rivals = None if against is None else _rivals(sections, against)
    if path.suffix == ".csv":
        made = _csv(sections, rivals, against)
    else:
        table = _table(sections, rivals, against)
        made = markup.markdown(table) if path.suffix == ".md" else markup.latex(table, "mnemon report")
    with files.explained(f"the table could not be written to {path}"):
        files.write(path, made.encode())
    return path


def _rivals(sections: Sequence[Section], against: str) -> list[list[Group]]:
    """Of each section the groups that the others are set against, with whatever settings, in the order of `ranked`."""
    variants = {group.variant for section in sections for group in section.groups}
    begun = {v.method for v in variants if f"{against}+".startswith((f"{v.method}+", f"{v.method}:"))}
    method = max(begun, key=len, default="")  # the + of der++ is part of its name
    loss, _, classifier = against[len(method) :].partition("+")
    loss = loss.removeprefix(":")
    its_loss, its_classifier = own(method) or ("", "")
    meant = [v for v in variants if v.method == method and loss in ("", v.loss) and classifier in ("", v.classifier)]
    if not classifier:  # the method with its own classifier, where that was run
        meant = [v for v in meant if v.classifier == its_classifier] or meant
    meant = [v for v in meant if v.loss == its_loss] or meant
    if not meant:
        raise unknown("method to compare with", against, {f"{v.method}+{v.classifier}" for v in variants})
    if len(meant) > 1:
        which = ", ".join(sorted(f"{v.method}:{v.loss}+{v.classifier}" for v in meant))
        raise MnemonError(f"{against} does not say which loss or classifier to compare with; name one of {which}.")
    return [ranked([group for group in section.groups if group.variant == meant[0]]) for section in sections]


def _compared(group: Group, rivals: Sequence[Group]) -> tuple[Group, Estimate] | str:
    """The rival on the same stream with the same network and memory, and the paired difference, the group minus the rival; or
    why there is none, in two words."""
    rival = first_comparable(rivals, group)
    if rival is group:
        return "reference"
    if rival is None:
        found = {obstacle(group, each) for each in rivals}  # of several what the nearest one differs in
        return next((why for why in ("other memory", "other network", "other stream") if why in found), "not run")
    if not set(group.seeds) & set(rival.seeds):
        return "no shared seed"
    apart = difference(group, rival)
    return "not measured" if apart is None else (rival, apart)


# --- for people


def _table(sections: Sequence[Section], rivals: list[list[Group]] | None, against: str | None) -> Table:
    parts = []
    for number, section in enumerate(sections):
        forgets = any(g.estimate("average_forgetting") for g in section.groups)
        title = section.title if section.split == "test" else f"{section.title}, validation"
        heads = [title, "Final accuracy" if is_task_free(section.protocol.get("kind")) else "Average Accuracy"]
        heads += ["Average Forgetting"] if forgets else []
        further = [metric for metric in FURTHER if any(g.estimate(metric) for g in section.groups)]
        heads += [METRICS[metric] for metric in further]
        heads += [f"against {against}", "pairs"] if rivals else []
        rows = []
        for group in section.groups:
            row = [group.name, str(group.estimate("average_accuracy") or "–")]
            row += [str(group.estimate("average_forgetting") or "–")] if forgets else []
            row += [str(group.estimate(metric) or "–") for metric in further]
            if rivals:
                found = _compared(group, rivals[number])
                row += [found, ""] if isinstance(found, str) else [found[1].text(signed=True), str(found[1].n)]
            rows.append([*row, str(len(group.records))])
        parts.append(Part(headings(*heads, "runs"), rows))
    notes = ["Percent, mean ± half-width of the 95 % interval over runs (Student’s t); a single run has none."]
    if rivals:
        notes.append(
            f"Against {against} (the reference): the paired difference in accuracy over the seeds that both have (pairs), "
            "where both have seen the same stream with the same network and the same memory; where not, what differs."
        )
    return Table("results", "Results", parts, notes)


# --- for programs


def _csv(sections: Sequence[Section], rivals: list[list[Group]] | None, against: str | None) -> str:
    """One line a group, every number in a column of its own; `options` is JSON."""
    heads = ["stream", "split", "name", "order", "method", "loss", "classifier", "memory_size", "options"]
    heads += ["runs", "seeds", *(f"{metric}{end}" for metric in METRICS for end in ("", "_half")), "seconds"]
    if rivals:
        heads += [
            "against",
            "against_name",
            "against_options",
            "difference",
            "difference_half",
            "pairs",
            "not_compared",
        ]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(heads)
    for number, section in enumerate(sections):
        for group in section.groups:
            first = group.first
            line = [section.stream, section.split, group.name, first.get("order", "natural"), *group.variant]
            line += [first.get("memory_size"), _options(group), len(group.records), names.ranges(group.seeds, "-")]
            for metric in METRICS:
                line += _numbers(group.estimate(metric))
            seconds = mean_seconds(group.records)
            line.append("" if seconds is None else round(seconds, 3))
            if rivals:
                found = _compared(group, rivals[number])
                if isinstance(found, str):
                    line += [*[""] * 6, found]
                else:
                    line += [against, found[0].name, _options(found[0]), *_numbers(found[1]), found[1].n, ""]
            lines.writerow(line)
    return out.getvalue()


def _options(group: Group) -> str:
    return json.dumps(group.first["options"], sort_keys=True)


def _numbers(found: Estimate | None) -> list[float | str]:
    if found is None:
        return ["", ""]
    return [round(found.mean, 4), "" if found.half is None else round(found.half, 4)]
