"""The cells of the paper's Tables 1 to 4, and the runs behind each.

A cell is a variant (method, loss, classifier) on a stream. Its hyper-parameters are those its `Spec` has today.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mnemon.experiments.record import Variant
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate
from mnemon.learning.build import choose
from mnemon.paper import numbers
from mnemon.render import names

SEEDS = tuple(range(numbers.RUNS))
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
    """A row of a table: its name, and the variant behind it."""

    name: str
    method: str
    loss: str
    classifier: str
    paper: str | None = None  # the name of the paper's row; None: a row of ours, beyond the paper

    @property
    def variant(self) -> Variant:
        return Variant(self.method, self.loss, self.classifier)

    @property
    def bound(self) -> bool:
        """Whether it is an i.i.d. bound, which learns from shuffled samples."""
        return self.method in names.UPPER_BOUNDS

    @property
    def short_name(self) -> str:
        """Without what stands in brackets."""
        return self.name.partition(" (")[0]

    @property
    def label(self) -> str:
        """As tables write it: † marks what is not in the paper."""
        return self.name if self.paper else f"{self.name} †"


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
    extra = [] if table == 4 else ["er-ace", "er-aml", "der++", "scr", "pcr", "las"]
    return (
        *(_own(name) for name in printed),
        Row("ER + NCM", "er", "ce", "ncm"),
        *(_own(name, beyond=True) for name in [*extra, "hybrid-ace"]),
    )


def online_rows() -> list[Row]:
    """The rows of Table 1 that learn from the stream: all but the i.i.d. bounds."""
    return [row for row in rows(1) if not row.bound]


def row(method: str, classifier: str | None = None) -> Row:
    """The row of Table 1 with this method, and with this classifier where the method has several."""
    return next(r for r in rows(1) if r.method == method and classifier in (None, r.classifier))


def ablation(name: str) -> Row:
    """The row of Table 3 with this name."""
    return next(r for r in rows(3) if r.name == name)


def streams(table: int) -> tuple[str, ...]:
    return {3: ABLATION_STREAMS, 4: SMOOTH_STREAMS}.get(table, SPLIT_STREAMS)


def _numbers(table: int) -> dict[tuple[str, str], Estimate]:
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
    def paper(self) -> Estimate | None:
        """What the paper prints there."""
        return None if self.row.paper is None else _numbers(self.table).get((self.row.paper, self.stream))

    @property
    def runs_on(self) -> str:
        """The stream the runs are made on: i.i.d. runs know no tasks, so both numbers of tasks share theirs."""
        if self.row.bound and self.stream.endswith("-20"):
            return self.stream.removesuffix("20") + "10"
        return self.stream

    def spec(self, seed: int = 0) -> Spec:
        """The run behind the cell; one training serves all classifiers that any cell asks of it."""
        row = self.row
        classifiers = CLASSIFIERS.get((row.method, row.loss), (row.classifier,))
        return Spec(row.method, self.runs_on, seed, row.loss, classifiers, cell=f"table{self.table}")

    def command(self, device: str) -> str:
        """The command that makes these runs."""
        return shlex.join([*self.spec().command(), "--seeds", str(numbers.RUNS), "--device", device])


def cells(table: int, methods: Sequence[str] = (), only: Sequence[str] = ()) -> list[Cell]:
    """The cells of a table, row by row; of these methods and streams only, where some are named."""
    return [
        Cell(table, row, stream)
        for row in rows(table)
        for stream in streams(table)
        if (not methods or row.method in methods) and (not only or stream in only)
        if not (table == 2 and row.bound)
    ]
