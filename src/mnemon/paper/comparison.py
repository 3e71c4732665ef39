"""Ours and the paper's number of a cell: how they are written, their difference, and the verdict on it."""

from __future__ import annotations

from mnemon.experiments.stats import Estimate
from mnemon.paper import numbers
from mnemon.paper.cells import Cell
from mnemon.paper.results import CellRuns
from mnemon.render import names

ENOUGH = 0.985  # of the paper's mean: as good as the paper's, whatever the intervals say
MORE_LOST = 4.0  # points: forgetting that is at most so much above the paper's
NOT_RUN, NOTHING = "not run", "–"
MARKS = {"overlap": "✓", "good": "≥", "off": "✗", "": ""}
LESS = {**MARKS, "good": "≤"}  # of forgetting, where less is better
ABOVE = f"≤{MORE_LOST:g}"  # of forgetting: more than the paper's, by so many points at most


def with_runs(found: Estimate, *, signed: bool = False) -> str:
    """Mean ± half-width; and the number of runs, where it is not the paper's fifteen."""
    runs = "" if found.n == numbers.RUNS else f" (n = {found.n})"
    return found.text(signed=signed) + runs


def ours(found: CellRuns) -> str:
    return NOT_RUN if found.estimate is None else with_runs(found.estimate)


def theirs(cell: Cell) -> str:
    if cell.paper is None:
        return NOTHING
    return f"{cell.paper}{' *' if cell.row.method in numbers.QUOTED else ''}"


def difference(cell: Cell, found: CellRuns) -> float | None:
    """Ours minus the paper's, where both are there."""
    return found.estimate.mean - cell.paper.mean if cell.paper and found.estimate else None


def verdict(cell: Cell, found: CellRuns) -> str:
    """ "overlap": the intervals do. "good": they do not, and ours is at least 98.5 % of the paper's (of forgetting: at most
    4 points more). "off": neither. "" where there is nothing to compare, or a single run, which has no interval."""
    mine, paper = found.estimate, cell.paper
    if mine is None or mine.half is None or paper is None or paper.half is None:
        return ""
    apart = mine.mean - paper.mean
    if abs(apart) <= paper.half + mine.half:
        return "overlap"
    good = apart <= MORE_LOST if cell.table == 2 else mine.mean >= ENOUGH * paper.mean
    return "good" if good else "off"


def mark(cell: Cell, found: CellRuns) -> str:
    """The sign of the verdict."""
    said = verdict(cell, found)
    if cell.table != 2:
        return MARKS[said]
    more = said == "good" and (difference(cell, found) or 0.0) > 0
    return ABOVE if more else LESS[said]


def difference_text(cell: Cell, found: CellRuns) -> str:
    """The difference, and the mark."""
    by = difference(cell, found)
    return "" if by is None else f"{names.fixed(by, signed=True)} {mark(cell, found)}".rstrip()
