"""Ours and the paper's number of a cell: how they are written, their difference, and the verdict on it."""

from __future__ import annotations

from collections.abc import Sequence

from mnemon.experiments.stats import Estimate
from mnemon.paper import numbers
from mnemon.paper.cells import Cell
from mnemon.paper.results import CellRuns
from mnemon.render import names

NOT_RUN, NOTHING = "not run", "–"
AGREES, ABOVE, BELOW, TOO_FEW = "agrees", "above", "below", "too few runs"
MARKS = {AGREES: "✓", ABOVE: "▲", BELOW: "▼", TOO_FEW: "?", "": ""}
LEGEND = "✓ agrees: the intervals overlap; ▲ ours is above the paper's, ▼ below it."
FEWEST = 5  # runs that a verdict needs: the interval of two is so wide that it overlaps with nearly anything


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
    """Whether ours agrees with the paper's (the intervals overlap), is above or below it, or has too few runs to tell; "" where
    there is nothing to compare."""
    mine, paper = found.estimate, cell.paper
    if mine is None or paper is None or paper.half is None:
        return ""
    if mine.half is None or mine.n < FEWEST:
        return TOO_FEW
    apart = mine.mean - paper.mean
    if abs(apart) <= paper.half + mine.half:
        return AGREES
    return ABOVE if apart > 0 else BELOW


def mark(cell: Cell, found: CellRuns) -> str:
    """The sign of the verdict."""
    return MARKS[verdict(cell, found)]


def counts(judged: Sequence[str], than: str = "") -> str:
    """How many of some verdicts are which; `than` stands behind the word below."""
    agree, few = judged.count(AGREES), judged.count(TOO_FEW)
    said = (
        f"{agree} {'agrees' if agree == 1 else 'agree'}, {judged.count(ABOVE)} above, {judged.count(BELOW)} below{than}"
    )
    return f"{said}, {few} with too few runs to tell" if few else said


def legend(judged: Sequence[str]) -> str:
    """What the marks of some verdicts mean."""
    return f"{LEGEND} {MARKS[TOO_FEW]} fewer than {names.word(FEWEST)} runs." if TOO_FEW in judged else LEGEND


def difference_text(cell: Cell, found: CellRuns) -> str:
    """The difference, and the mark."""
    by = difference(cell, found)
    return "" if by is None else f"{names.fixed(by, signed=True)} {mark(cell, found)}".rstrip()
