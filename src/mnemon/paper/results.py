"""What a folder holds: the records that count for each cell, and what was measured beside them.

A record counts for a cell only at the hyper-parameters the cell has today. Where a run was made does not matter
(experiments/index.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from mnemon.experiments.index import RecordIndex
from mnemon.experiments.record import Record
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate, estimate, paired_difference
from mnemon.experiments.store import ResultFolder
from mnemon.paper import json_lines, stream_facts, times
from mnemon.paper.cells import SEEDS, Cell, Row
from mnemon.paper.json_lines import Line
from mnemon.render.svg import Floats

LEAST = 3  # runs that a mean or a difference is judged by


class Absent(Exception):
    """What is missing, as one line."""


@dataclass(frozen=True)
class CellRuns:
    """The records that count for a cell or a number beside the tables, by seed."""

    records: dict[int, Record]
    metric: str

    @cached_property
    def values(self) -> dict[int, float]:
        """The cell's metric by seed, where it is defined."""
        return {seed: float(r[self.metric]) for seed, r in self.records.items() if r.get(self.metric) is not None}

    @cached_property
    def estimate(self) -> Estimate | None:
        return estimate(self.values.values())

    @property
    def judged(self) -> Estimate | None:
        """The estimate, where there are enough runs to judge by."""
        return self.estimate if len(self.values) >= LEAST else None

    @property
    def matrices(self) -> Floats | None:
        """The accuracy matrices [runs, k, j]; None where there is no record."""
        found = [np.array(r["accuracy_matrix"], float) for r in self.records.values()]
        return np.stack(found) if found else None


@dataclass(frozen=True)
class Results:
    """What a folder held when it was read."""

    out: Path
    index: RecordIndex
    times: Sequence[Line] = ()
    streams: Sequence[Line] = ()  # facts of the streams
    seeds: Sequence[int] = SEEDS
    _known: dict[Cell, CellRuns] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, out: Path, seeds: Sequence[int] = SEEDS) -> Results:
        timed, streams = (json_lines.read(out / name) for name in (times.FILE, stream_facts.FILE))
        return cls(out, RecordIndex(ResultFolder(out).read()), timed, streams, seeds)

    def of(self, cell: Cell) -> CellRuns:
        """The records that count for a cell."""
        if cell not in self._known:
            self._known[cell] = self.runs(cell.spec(), cell.row.classifier, self.seeds, cell.metric)
        return self._known[cell]

    def runs(self, spec: Spec, classifier: str, seeds: Iterable[int], metric: str = "average_accuracy") -> CellRuns:
        """The records of runs made as `spec` would be made now, with these seeds, read by a classifier."""
        there = self.index.like(spec, classifier)
        return CellRuns({seed: there[seed] for seed in seeds if seed in there}, metric)

    def difference(self, one: Row, other: Row, stream: str, table: int = 1) -> Estimate:
        """The paired difference of two rows on a stream, in the metric of the table: 2 compares forgetting."""
        mine, theirs = (self.of(Cell(table, row, stream)).values for row in (one, other))
        return judged(paired_difference(mine, theirs), f"{one.name} and {other.name} on {stream}")


def judged(difference: Estimate | None, what: str) -> Estimate:
    """The difference, where it is over enough pairs to judge by."""
    if difference is None or difference.n < LEAST:
        raise Absent(what)
    return difference
