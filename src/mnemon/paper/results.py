"""What figures and claims are made from: the records of a folder, the scores of its runs, its times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemon import files
from mnemon.experiments import records
from mnemon.experiments.spec import Spec
from mnemon.paper import cells, measured
from mnemon.paper.cells import Cell, Library, Row
from mnemon.paper.measured import Line

Floats = NDArray[np.float64]

BIAS_STREAM = "split-cifar10"  # of Figure 1
AGAIN = "fig1"  # OUT/fig1: runs made again for their scores, where the records have none
SIZES = (200, 500, 1000, 2000)  # of the memory, Figure 5
SIZE_STREAMS = ("split-cifar10", "split-cifar100-10", "split-mini_imagenet-10")
SIZE_SEEDS = (100, 101, 102, 103, 104)  # on validation samples, so never among the fifteen


@dataclass(frozen=True)
class Source:
    """What a folder holds."""

    out: Path
    library: Library
    again: Library  # of OUT/fig1
    times: Sequence[Line]
    seeds: Sequence[int] = cells.SEEDS


class Absent(Exception):
    """What is missing, as one line."""


def source(out: Path, seeds: Sequence[int] = cells.SEEDS) -> Source:
    """The folder as it is now."""
    again = Library(records.read(out / AGAIN))
    return Source(out, Library(records.read(out)), again, measured.read(out, measured.TIMES), seeds)


def row(method: str, classifier: str | None = None) -> Row:
    """The row of Table 1 with this method, and with this classifier where the method has several."""
    return next(r for r in cells.rows(1) if r.method == method and classifier in (None, r.classifier))


def matrices(source: Source, cell: Cell) -> Floats | None:
    """The accuracy matrices [runs, k, j] of a cell; None where it has no record."""
    found = [np.array(r["accuracy_matrix"], float) for r in source.library.of_cell(cell, source.seeds).records.values()]
    return np.stack(found) if found else None


# --- the scores behind Figure 1a


def bias(source: Source) -> tuple[Floats, int]:
    """[k, j]: mean logit of task j's classes after task k, over test samples and runs; and how many runs."""
    found = [scores for seed in source.seeds if (scores := _scores(source, seed)) is not None]
    if not found:
        raise Absent(f"no run of ER on {BIAS_STREAM} has its scores (details/RUN.json)")
    return np.mean(found, axis=0), len(found)


def without_scores(source: Source) -> list[Spec]:
    """The runs to make again in OUT/fig1: those that have a record, but no scores."""
    cell = Cell(1, row("er", "softmax"), BIAS_STREAM)
    there = source.library.of_cell(cell, source.seeds).records
    return [cell.spec(seed) for seed in source.seeds if seed in there and _scores(source, seed) is None]


def _scores(source: Source, seed: int) -> Floats | None:
    cell = Cell(1, row("er", "softmax"), BIAS_STREAM)
    for library, folder in ((source.library, source.out), (source.again, source.out / AGAIN)):
        record = library.of_cell(cell, [seed]).records.get(seed)
        if record is None:
            continue
        try:
            details = files.parsed((folder / "details" / f"{record['run']}.json").read_bytes())
            found = np.array(details["classifiers"][cell.row.classifier]["average_scores"], float)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if found.ndim == 2 and len(found) > 1:
            return found
    return None


# --- the validation runs behind Figure 5


def size_spec(method: str, stream: str, size: int, seed: int) -> Spec:
    """A run with that many rows of memory."""
    loss = row(method).loss
    classifiers = cells.CLASSIFIERS[method, loss]
    return Spec(method, stream, seed, loss, classifiers, "valid", options={"memory_size": size}, cell="fig5")


def size_accuracies(source: Source, method: str, stream: str, size: int) -> dict[int, float]:
    """Validation accuracy by seed."""
    there = source.library.like(size_spec(method, stream, size, 0), row(method).classifier)
    return {seed: there[seed]["average_accuracy"] for seed in SIZE_SEEDS if seed in there}
