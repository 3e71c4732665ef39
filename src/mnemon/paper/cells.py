"""Every cell of the paper's Tables 1 to 4: which runs stand behind it, and which records count for it.

A cell is a way to learn and classify (method, loss, classifier) on a stream. Its hyper-parameters are those its `Spec` has
today, so that a record made with other ones, say before η was chosen, does not count. Where a run was made does not
matter (experiments/found.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mnemon.experiments import protocol
from mnemon.experiments.found import Found
from mnemon.experiments.metrics import confidence_interval
from mnemon.experiments.records import Record
from mnemon.experiments.spec import Spec
from mnemon.learning.build import choose
from mnemon.paper import numbers
from mnemon.render import names

SEEDS = tuple(range(numbers.RUNS))
ENOUGH = 0.985  # of the paper's mean: as good as the paper's, whatever the intervals say
MORE_LOST = 4.0  # points: forgetting that is at most so much above the paper's

SPLIT_STREAMS = tuple(dict.fromkeys(stream for _, stream in numbers.ACCURACY))
ABLATION_STREAMS = tuple(dict.fromkeys(stream for _, stream in numbers.ABLATION))
SMOOTH_STREAMS = tuple(dict.fromkeys(stream for _, stream in numbers.SMOOTH))

# What is read off one trained network: the training is what costs.
CLASSIFIERS = {
    ("er", "ce"): ("softmax", "ncm", "ncm-raw"),
    ("er", "ms"): ("ncm", "ncm-raw"),
    ("er", "pnca"): ("ncm", "ncm-raw", "proxy"),
    ("hybrid", "hybrid"): ("ncm", "ncm-raw", "proxy"),
}


class Row(NamedTuple):
    """A row of a table: how it is called, and the way to learn and classify behind it."""

    name: str
    method: str
    loss: str
    classifier: str
    paper: str | None = None  # the name of the paper's row; None: a row of ours, beyond the paper


def _own(method: str, *, beyond: bool = False) -> Row:
    """A method with its own loss and classifier."""
    choice = choose(method)
    name = names.METHODS.get(method, method) + (" (the paper's own)" if method == "hybrid" else "")
    return Row(name, method, choice.objective.name, choice.classifiers[0].name, None if beyond else method)


@lru_cache
def rows(table: int) -> tuple[Row, ...]:
    """The rows of Table 1 to 4: the paper's in the paper's order, with rows of ours after them."""
    if table == 3:
        return (
            Row("CE + softmax", "er", "ce", "softmax", "ce+softmax"),
            Row("CE + NCM (raw)", "er", "ce", "ncm-raw", "ce+ncm"),
            Row("CE + NCM (normalised)", "er", "ce", "ncm"),
            Row("MS + NCM (raw)", "er", "ms", "ncm-raw"),
            Row("MS + NCM (normalised)", "er", "ms", "ncm", "ms+ncm"),
            Row("PNCA + NCM (raw)", "er", "pnca", "ncm-raw"),
            Row("PNCA + NCM (normalised)", "er", "pnca", "ncm", "pnca+ncm"),
            Row("hybrid + proxy", "hybrid", "hybrid", "proxy", "hybrid+proxy"),
            Row("hybrid + NCM (raw)", "hybrid", "hybrid", "ncm-raw"),
            Row("hybrid + NCM (normalised)", "hybrid", "hybrid", "ncm", "hybrid+ncm"),
        )
    printed = dict.fromkeys(name for name, _ in _numbers(table))
    extra = [] if table == 4 else ["er-ace", "der++", "scr", "las"]
    return (
        *(_own(name) for name in printed),
        Row("ER + NCM", "er", "ce", "ncm"),
        *(_own(name, beyond=True) for name in [*extra, "hybrid-ace"]),
    )


def online_rows() -> list[Row]:
    """The rows of Table 1 that learn from the stream: all but the i.i.d. bounds."""
    return [row for row in rows(1) if row.method not in names.UPPER_BOUNDS]


def streams(table: int) -> tuple[str, ...]:
    return {3: ABLATION_STREAMS, 4: SMOOTH_STREAMS}.get(table, SPLIT_STREAMS)


def _numbers(table: int) -> dict[tuple[str, str], numbers.Cell]:
    return {1: numbers.ACCURACY, 2: numbers.FORGETTING, 3: numbers.ABLATION, 4: numbers.SMOOTH}[table]


@dataclass(frozen=True)
class Cell:
    """One number of a table."""

    table: int
    row: Row
    stream: str

    @property
    def metric(self) -> str:
        return "average_forgetting" if self.table == 2 else "average_accuracy"

    @property
    def paper(self) -> numbers.Cell | None:
        """What the paper prints there."""
        return None if self.row.paper is None else _numbers(self.table).get((self.row.paper, self.stream))

    @property
    def runs_on(self) -> str:
        """The stream the runs are made on: i.i.d. runs know no tasks, so both numbers of tasks share theirs."""
        if self.row.method in names.UPPER_BOUNDS and self.stream.endswith("-20"):
            return self.stream.removesuffix("20") + "10"
        return self.stream

    def spec(self, seed: int = 0) -> Spec:
        """The run behind the cell; one training serves all classifiers that any cell asks of it."""
        row = self.row
        classifiers = CLASSIFIERS.get((row.method, row.loss), (row.classifier,))
        return Spec(row.method, self.runs_on, seed, row.loss, classifiers, cell=f"table{self.table}")

    def command(self, seeds: int = numbers.RUNS, device: str = "") -> str:
        """The command that makes these runs."""
        return shlex.join([*self.spec().command(), "--seeds", str(seeds), *(["--device", device] if device else [])])


def cells(table: int, methods: Sequence[str] = (), only: Sequence[str] = ()) -> list[Cell]:
    """The cells of a table, row by row; of these methods and streams only, where some are named."""
    return [
        Cell(table, row, stream)
        for row in rows(table)
        for stream in streams(table)
        if (not methods or row.method in methods) and (not only or stream in only)
        if not (table == 2 and row.method in names.UPPER_BOUNDS)
    ]


# --- records


class Sample(NamedTuple):
    """The records of a cell, by seed, and what they say."""

    records: dict[int, Record]
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def half(self) -> float | None:
        """Half-width of the 95 % interval; a single run has none."""
        return confidence_interval(self.values)[1] if len(self.values) > 1 else None


class Library(Found):
    """Records, ready to be asked for those of a cell."""

    def of_cell(self, cell: Cell, seeds: Sequence[int] = SEEDS) -> Sample:
        """The records that count for a cell."""
        there = self.like(cell.spec(), cell.row.classifier)
        kept = {seed: there[seed] for seed in seeds if seed in there}
        values = (record.get(cell.metric) for record in kept.values())
        return Sample(kept, tuple(float(value) for value in values if value is not None))


def missing(wanted: Iterable[Cell], library: Library, seeds: Sequence[int] = SEEDS) -> list[Spec]:
    """The runs that have to be made, each training once, dataset by dataset."""
    found: dict[tuple[str, ...], Spec] = {}
    for cell in wanted:
        there = library.of_cell(cell, seeds).records
        for seed in seeds:
            if seed not in there:
                spec = cell.spec(seed)
                found.setdefault((spec.stream, spec.method, str(spec.loss), str(seed)), spec)
    return sorted(found.values(), key=lambda spec: protocol.parse(spec.stream).dataset)


# --- ours against the paper's


def difference(cell: Cell, found: Sample) -> float | None:
    """Ours less the paper's, where both are there."""
    return found.mean - cell.paper.mean if cell.paper and found.values else None


def verdict(cell: Cell, found: Sample) -> str:
    """ "overlap": the intervals do. "good": they do not, and ours is at least 98.5 % of the paper's (of forgetting: at most
    4 points more). "off": neither. "" where there is nothing to compare, or a single run, which has no interval."""
    apart = difference(cell, found)
    if apart is None or cell.paper is None or found.half is None:
        return ""
    if abs(apart) <= cell.paper.interval + found.half:
        return "overlap"
    if cell.table == 2:
        return "good" if apart <= MORE_LOST else "off"
    return "good" if found.mean >= ENOUGH * cell.paper.mean else "off"
