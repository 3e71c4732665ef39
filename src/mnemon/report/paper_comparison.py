"""The paper's cells beside ours: difference, interval, whether they overlap, and what is behind each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mnemon.experiments.record import mean_seconds
from mnemon.paper import cells, comparison
from mnemon.paper.cells import Cell
from mnemon.paper.claims.entries import RULES, check
from mnemon.paper.comparison import ABOVE, AGREES, BELOW, FEWEST, NOT_RUN, TOO_FEW
from mnemon.paper.results import CellRuns, Results
from mnemon.render import names

MEANS = {
    AGREES: "agrees with the paper’s: the intervals overlap",
    ABOVE: "above the paper’s: the intervals do not overlap",
    BELOW: "below the paper’s: the intervals do not overlap",
    TOO_FEW: f"fewer than {names.word(FEWEST)} runs: too few to tell",
}
PARTS = ((1, "Split streams: the paper’s Tables 1 and 2"), (3, "Loss and classifier: Table 3"), (4, "Smooth: Table 4"))


class ComparedCell(NamedTuple):
    """A cell that has records here; forgetting where the paper's tables have it."""

    cell: Cell
    found: CellRuns
    lost: tuple[Cell, CellRuns] | None


def paper_comparison(results: Results) -> dict[str, Any] | None:
    """What templates/paper_comparison.html says; None where no record is of a cell of the paper."""
    parts = [_part(title, entries) for number, title in PARTS if (entries := _entries(number, results))]
    if not parts:
        return None
    return {
        "headline": _headline(_judged(results)),
        "parts": parts,
        "claims": [row for row in check(results).parts[0].rows if row[1] != NOT_RUN],  # those the records here speak to
        "rules": RULES,
        "legend": comparison.legend(_judged(results)),
    }


def _judged(results: Results) -> list[str]:
    """The verdicts on all accuracies that the paper prints, "" where there is none."""
    every = [cell for number, _ in PARTS for cell in cells.cells(number) if cell.paper]
    return [comparison.verdict(cell, results.of(cell)) for cell in every]


def _headline(judged: Sequence[str]) -> str:
    run = f"{len(judged) - judged.count('')} of the {len(judged)} accuracies the paper prints were run here"
    return f"{run}: {comparison.counts(judged, ' the paper’s')}."


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


def _part(title: str, entries: Sequence[ComparedCell]) -> dict[str, Any]:
    metrics = ["accuracy", "forgetting"] if any(entry.lost for entry in entries) else ["accuracy"]
    streams = [
        {
            "title": names.stream(stream),
            "rows": [_row(entry, metrics) for entry in entries if entry.cell.stream == stream],
        }
        for stream in dict.fromkeys(entry.cell.stream for entry in entries)
    ]
    return {"title": title, "metrics": metrics, "streams": streams}


def _row(entry: ComparedCell, metrics: Sequence[str]) -> dict[str, Any]:
    row, every = entry.cell.row, list(entry.found.records.values())
    cells_ = [_numbers(entry.cell, entry.found)]
    if "forgetting" in metrics:
        cells_.append(_numbers(*entry.lost) if entry.lost else {})
    seconds = mean_seconds(every)
    device = "cpu" if all(r.get("device") == "cpu" for r in every) else "cuda"
    return {
        "label": row.label,
        "name": row.name,
        "bound": row.bound,
        "cells": cells_,
        "runs": len(entry.found.values),
        "seconds": "–" if seconds is None else names.seconds(seconds),
        "devices": " / ".join(dict.fromkeys(names.text(r.get("device", "")) for r in every)),
        "command": entry.cell.command(device),
        "records": " ".join(names.text(r["run"]) for r in every),
    }


def _numbers(cell: Cell, found: CellRuns) -> dict[str, str]:
    made = {"theirs": comparison.theirs(cell), "ours": comparison.ours(found), "difference": ""}
    by, verdict = comparison.difference(cell, found), comparison.verdict(cell, found)
    if by is None:
        return made
    judged = {
        "verdict": verdict.replace(" ", "-"),
        "meaning": MEANS.get(verdict, ""),
        "mark": comparison.mark(cell, found),
    }
    return made | {"difference": names.fixed(by, signed=True)} | judged
