"""What is exported of a record, the same for every tracker.

final/…             the results of the record, as it names them
over_tasks/…        mean accuracy and forgetting over the tasks learned so far, by the number of these tasks
over_samples/…      the same, by samples learned
task_accuracy/…     the accuracy on each task, by the number of tasks learned, and all of them as a picture
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.experiments import metrics
from mnemon.experiments.record import NUMBER, NUMBER_OR_NULL, Record
from mnemon.trackers import figure

RESULTS = (*NUMBER, *NUMBER_OR_NULL)
DESCRIPTION = ("method", "loss", "classifier", "stream", "split", "order", "backbone")
LARGEST = 2**63  # steps are 64-bit numbers


class Point(NamedTuple):
    step: int
    value: float


@dataclass(frozen=True)
class Contents:
    """A record as curves, numbers, hyper-parameters and a picture."""

    record: Record

    @property
    def name(self) -> str:
        """RUN+CLASSIFIER: no two records of a folder share it."""
        return "+".join(self.record.identity)

    @cached_property
    def digest(self) -> str:
        """Another one if any field of the record is another."""
        return hashlib.sha256(json.dumps(self.record, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def group(self) -> str:
        """Equal for the runs that differ in nothing but their seed; it begins with what a person reads."""
        digest = hashlib.sha256(self.record.experiment.encode()).hexdigest()[:8]
        return f"{self.record.display_name}, {self.record['stream']} ({digest})"

    @property
    def finished(self) -> float:
        """Seconds since 1970; 0 where the record does not tell."""
        try:
            return datetime.fromisoformat(self.record.get("finished", "")).timestamp()
        except (TypeError, ValueError, OverflowError):
            return 0.0

    @property
    def started(self) -> float:
        return max(0.0, self.finished - float(sum(self.record.get("seconds", {}).values())))

    @cached_property
    def results(self) -> dict[str, float]:
        """final/average_accuracy and the others that the record has."""
        found = {f"final/{name}": self.record.get(name) for name in RESULTS}
        return {tag: float(value) for tag, value in found.items() if value is not None and math.isfinite(value)}

    @property
    def hyper_parameters(self) -> dict[str, bool | float | str]:
        """Of the run, but for its seed: names with numbers or words."""
        said = {name: self.record.get(name) for name in DESCRIPTION} | self.record["options"]
        plain = {name: value for name, value in said.items() if value is not None}
        return {
            name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
            for name, value in plain.items()
        }

    @cached_property
    def curves(self) -> dict[str, list[Point]]:
        """The points of each curve, at the evaluations of the run."""
        matrix = self._matrix
        accuracy = [float(np.mean(row[np.isfinite(row)])) if np.isfinite(row).any() else math.nan for row in matrix]
        forgetting = [_forgetting(matrix[: k + 1, : k + 1]) for k in range(len(matrix))]
        found: dict[str, list[Point]] = {}
        for over, steps in (("tasks", self._tasks), ("samples", self._samples)):
            if steps is not None:
                found[f"over_{over}/accuracy"] = _points(steps, accuracy)
                found[f"over_{over}/forgetting"] = _points(steps, forgetting)
        if self._tasks is not None:
            for j, column in enumerate(matrix.T, 1):
                found[f"task_accuracy/task_{j:0{len(str(len(matrix.T)))}}"] = _points(self._tasks, column.tolist())
        return {tag: points for tag, points in found.items() if points}

    def picture(self) -> bytes | None:
        """The accuracy matrix as PNG; None on a stream that is not evaluated task by task."""
        return figure.accuracy_matrix(self._matrix) if self._tasks is not None and len(self._tasks) > 1 else None

    @cached_property
    def _matrix(self) -> NDArray[np.float64]:
        return np.array(self.record["accuracy_matrix"], float)

    @property
    def _tasks(self) -> Sequence[int] | None:
        """How many tasks were learned at each evaluation; None on a stream that is not evaluated at the ends of tasks."""
        rows, columns = self._matrix.shape
        if columns == 1:
            return None
        if rows == columns:
            return range(1, rows + 1)
        return [columns] if rows == 1 else None

    @property
    def _samples(self) -> Sequence[int] | None:
        """How many samples were learned at each evaluation; None where the record does not tell."""
        protocol, rows = self.record["protocol"], len(self._matrix)
        learned = protocol.get("learned", protocol.get("samples"))
        for steps in (protocol.get("evaluated"), protocol.get("boundaries"), [learned]):
            if isinstance(steps, list) and len(steps) == rows and all(map(_is_step, steps)):
                return steps
        return None


def _forgetting(matrix: NDArray[np.float64]) -> float:
    """After the tasks of a square part of the accuracy matrix; nan where it is not one."""
    square = matrix.shape[0] == matrix.shape[1] and bool(np.isfinite(matrix[np.tril_indices(len(matrix))]).all())
    return metrics.average_forgetting(matrix) if square else math.nan


def _points(steps: Sequence[int], values: Sequence[float]) -> list[Point]:
    return [Point(step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)]


def _is_step(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST
