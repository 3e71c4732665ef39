"""One run: a method on one stream with one seed, evaluated at the end of each task; it can stop and resume at any step."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.experiments.scenario import Scenario
from mnemon.learning.build import Choice
from mnemon.learning.labels import LabelTable
from mnemon.learning.learner import BLOCK
from mnemon.learning.learners import make_learner


class PendingEvaluation(NamedTuple):
    """An evaluation of one classifier that may still be computed on the device."""

    accuracy: Tensor  # [tasks], percent
    scores: Tensor  # [tasks], the mean score of the classes of each
    confusion: Tensor | None  # [C, C], after the last task


class Run:
    """The progress of one run. `position` counts the batches learned; `rows` holds one entry per evaluation."""

    def __init__(
        self,
        choice: Choice,
        scenario: Scenario,
        *,
        seed: int,
        device: torch.device,
        bf16: bool = False,
        measures: tuple[str, ...] = (),
    ) -> None:
        self.choice, self.scenario, self.seed, self.measures = choice, scenario, seed, measures
        # classifier → samples predicted right before they were learned, of how many
        self.prequential: dict[str, list[int]] = {}
        self.batches, self.ends = scenario.stream.batches(choice.method.batch_size)
        self.position = 0
        self.rows: list[dict[str, Any]] = []
        self.confusion: dict[str, list[list[int]]] = {}
        self.seconds = {"train": 0.0, "evaluate": 0.0}
        self.learner = make_learner(
            choice.method,
            choice.objective,
            scenario.inputs,
            backbone=scenario.backbone,
            seed=seed,
            device=device,
            bf16=bf16,
        )
        # Class indices in the order of first arrival; classes that are tested but never arrive come last.
        arrived, first = np.unique(scenario.y[scenario.stream.indices], return_index=True)
        self.table = LabelTable(arrived[np.argsort(first)])
        self.table.add(label for labels in scenario.tested for label in labels)
        self.learner.expect(len(self.table))  # room only: no class row depends on how many others there are
        self.y = torch.from_numpy(self._index(scenario.y)).to(device)
        self.y_test = torch.from_numpy(self._index(scenario.y_test)).to(device)

    def _index(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Labels → class indices; −1 for one that neither arrives nor is tested."""
        known, inverse = np.unique(labels, return_inverse=True)
        return self.table.find(known)[inverse]

    @property
    def finished(self) -> bool:
        return len(self.rows) == len(self.ends)

    @property
    def at_task_end(self) -> bool:
        """Whether the batches learned so far end a task that was not evaluated yet."""
        return self.position == self.ends[len(self.rows)]

    def next_batches(self) -> NDArray[np.int64]:
        """BLOCK of them, or fewer where the task ends."""
        return self.batches[self.position : min(self.position + BLOCK, self.ends[len(self.rows)])]

    def count_steps(self, learned: int, start: float) -> None:
        """So many batches were learned since `start`; raises Diverged if a loss was not finite."""
        self.position += learned
        self.learner.check()
        self.seconds["train"] += time.perf_counter() - start

    def evaluate(self) -> dict[str, PendingEvaluation]:
        """Test on the tasks learned so far (all of them where the stream has no tasks of its own), or on the classes seen so
        far where the stream says when; nothing is waited for."""
        tested, learned = self.scenario.tested, len(self.rows) + 1
        known = tested[:learned] if len(self.ends) == len(tested) else tested
        if self.scenario.stream.evaluations:
            seen = np.unique(self.scenario.y[self.batches[: self.ends[len(self.rows)]]])
            known = (tuple(seen.tolist()),)
        device = self.y_test.device
        members = np.stack([np.isin(self.scenario.y_test, labels) for labels in known])  # [tasks, n]
        chosen = np.flatnonzero(members.any(0))
        # All that comes from the host comes before the passes: what came later would wait for them.
        rows = torch.from_numpy(chosen).to(device)
        masks = torch.from_numpy(members[:, chosen].astype(np.float64)).to(device)
        sizes = torch.from_numpy(members.sum(1)).to(device)
        columns = [torch.from_numpy(self._index(np.array(labels))).to(device) for labels in known]
        place = torch.from_numpy(np.argsort(np.argsort(self.table.labels))).to(device)  # labels in sorted order
        x, y = self.scenario.x_test.index_select(0, rows), self.y_test.index_select(0, rows)
        found = {}
        for classifier, scores in zip(
            self.choice.classifiers, self.learner.scores(x, self.choice.classifiers), strict=True
        ):
            predicted = scores.argmax(1)
            right = (masks @ (predicted == y).double()) / sizes
            found[classifier.name] = PendingEvaluation(
                accuracy=100 * right,
                scores=torch.stack([scores[:, own].double().mean() for own in columns]),
                confusion=_confusion(place[y], place[predicted], len(place)) if learned == len(self.ends) else None,
            )
        return found

    def add_evaluation(self, evaluation: dict[str, PendingEvaluation], start: float) -> None:
        """Read an evaluation that was launched at `start`."""
        row: dict[str, Any] = {}
        for name, found in evaluation.items():
            missing = [None] * (len(self.scenario.tested) - len(found.accuracy))
            means = found.scores.tolist()  # not finite where a class could not be predicted at all
            row[name] = {
                "accuracy": found.accuracy.tolist() + missing,
                "scores": [mean if np.isfinite(mean) else None for mean in means] + missing,
            }
            if found.confusion is not None:
                self.confusion[name] = found.confusion.tolist()
        self.rows.append(row)
        self.seconds["evaluate"] += time.perf_counter() - start

    # --- state

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values from which `restore` goes on bit for bit."""
        return self.learner.state(), {
            "position": self.position,
            "steps": self.learner.steps,
            "samples": self.learner.samples,
            "rows": self.rows,
            "confusion": self.confusion,
            "seconds": self.seconds,
            **({"prequential": self.prequential} if self.measures else {}),
        }

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.learner.restore(tensors, steps=values["steps"], samples=values["samples"])
        self.position, self.rows = values["position"], values["rows"]
        self.confusion, self.seconds = values["confusion"], values["seconds"]
        self.prequential = values.get("prequential", {})


def _confusion(true: Tensor, predicted: Tensor, n: int) -> Tensor:
    """Counts [true, predicted]."""
    return true.new_zeros(n * n).index_add_(0, true * n + predicted, torch.ones_like(true)).reshape(n, n)
