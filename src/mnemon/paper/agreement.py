"""How many numbers of ours agree with the paper's, and how many of these a stricter rule would tell apart."""

from __future__ import annotations

import math

from mnemon.experiments.stats import Estimate
from mnemon.paper import cells, comparison
from mnemon.paper.comparison import ABOVE, AGREES, BELOW
from mnemon.paper.results import Results
from mnemon.render.tables import Part, Table, headings

STRICTER = "of the agreeing, apart by Welch's t test"


def apart(ours: Estimate, paper: Estimate) -> bool:
    """Whether Welch's t test at 5 % tells two means apart that are given with their 95 % intervals."""
    from scipy.special import stdtrit  # the t-quantile; not loaded before it is needed

    assert ours.half is not None
    assert paper.half is not None
    squares = [(each.half / stdtrit(each.n - 1, 0.975)) ** 2 for each in (ours, paper)]  # of the standard errors
    freedom = sum(squares) ** 2 / (squares[0] ** 2 / (ours.n - 1) + squares[1] ** 2 / (paper.n - 1))
    return bool(abs(ours.mean - paper.mean) > stdtrit(freedom, 0.975) * math.sqrt(sum(squares)))


def table(results: Results) -> Table:
    """The verdicts of Tables 1 to 4, counted."""
    rows = [(f"Table {number}", _counts(number, results)) for number in (1, 2, 3, 4)]
    rows.append(("all", [sum(column) for column in zip(*(counts for _, counts in rows), strict=True)]))
    columns = headings("", "cells in the paper", "run", "agree ✓", "above ▲", "below ▼", STRICTER)
    lines = [[name, *map(str, counts)] for name, counts in rows]
    return Table("agreement", "Numbers that agree with the paper's", [Part(columns, lines)], [comparison.LEGEND])


def _counts(number: int, results: Results) -> list[int]:
    compared = [(cell, results.of(cell)) for cell in cells.cells(number) if cell.paper]
    said = [comparison.verdict(cell, found) for cell, found in compared]
    agreeing = [
        (found.estimate, cell.paper) for (cell, found), verdict in zip(compared, said, strict=True) if verdict == AGREES
    ]
    told_apart = sum(apart(ours, paper) for ours, paper in agreeing if ours and paper)
    return [len(said), len(said) - said.count(""), len(agreeing), said.count(ABOVE), said.count(BELOW), told_apart]
