"""One run: a method on one stream with one seed, evaluated at the end of each task; it can stop and go on at any step."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from mnemon import data, streams
from mnemon.data.arrays import samples
from mnemon.data.library import edition
from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.learning.backbones import Backbone
from mnemon.learning.build import Choice
from mnemon.learning.captured import Seat, seats
from mnemon.learning.labels import LabelTable
from mnemon.learning.learner import BLOCK, Inputs, Learner
from mnemon.learning.stacked import can_stack


@dataclass(frozen=True)
class Task:
    """What one run works on: samples on the device, their order, and the sets it is tested on."""

    name: str
    stream: streams.Stream  # indices point into x
    x: Tensor
    y: NDArray[Any]  # labels of x
    x_test: Tensor
    y_test: NDArray[Any]
    tested: tuple[tuple[Any, ...], ...]  # the labels of each evaluated task
    inputs: Inputs
    backbone: Backbone
    data: dict[str, str]  # name and checksum of the dataset


def named_task(
    stream: str, seed: int, *, epochs: int, split: str = "test", order: str = "natural", device: torch.device
) -> Task:
    """The paper's protocol for a stream's name; `epochs` above 0 shuffles the same samples (i.i.d.)."""
    name = protocol.parse(stream)
    dataset = _resident(name.dataset, device, edition(name.dataset))
    labels = dataset.y_train.numpy()  # labels stay on the host, samples live on the device
    pools = protocol.pools(labels, name.rules, seed)
    made = protocol.make(name, labels[pools.train], seed, order)
    base = streams.Stream(made.kind, pools.train[made.indices], made.boundaries, made.tasks)
    if split == "test":
        x_test, y_test = dataset.x_test, dataset.y_test.numpy()
    else:
        x_test, y_test = dataset.x_train[pools.valid], labels[pools.valid]
    return Task(
        name=str(name),
        stream=shuffled(base, labels, epochs, seed),
        x=dataset.x_train,
        y=labels,
        x_test=x_test,
        y_test=y_test,
        tested=base.tasks,
        inputs=Inputs(tuple(dataset.x_train.shape[1:]), dataset.x_train.dtype, dataset.mean, dataset.std),
        backbone=name.rules.backbone,
        data={"name": dataset.name, "checksum": dataset.checksum},
    )


def dataset_checksum(stream: str, device: torch.device) -> str:
    """Of the dataset behind a stream's name."""
    name = protocol.parse(stream).dataset
    return _verified(name, device, edition(name))


@lru_cache(maxsize=2)
def _resident(name: str, device: torch.device, stored: object) -> data.Dataset:
    """A dataset, moved to the device."""
    dataset = data.load(name)
    return replace(dataset, x_train=dataset.x_train.to(device), x_test=dataset.x_test.to(device))


@lru_cache
def _verified(name: str, device: torch.device, stored: object) -> str:
    """Read and verified once for all runs of a process, until another dataset is stored under the name."""
    return _resident(name, device, stored).checksum


def shuffled(base: streams.Stream, labels: NDArray[Any], epochs: int, seed: int) -> streams.Stream:
    """The same samples i.i.d., for the methods that want that; other methods get the stream as it is."""
    if epochs == 0:
        return base
    made = streams.iid(labels[base.indices], epochs=epochs, seed=seed)
    return streams.Stream(made.kind, base.indices[made.indices], made.boundaries, made.tasks)


def array_task(
    stream: streams.Stream, arrays: tuple[ArrayLike, ...], seed: int, *, epochs: int, device: torch.device
) -> Task:
    """A stream object over the caller's own arrays (x, y, x_test, y_test)."""
    if len(arrays) != 4:
        raise MnemonError("data is a tuple of four arrays: x, y, x_test, y_test.")
    x, x_test = samples(arrays[0], "x"), samples(arrays[2], "x_test")
    y, y_test = np.asarray(arrays[1]), np.asarray(arrays[3])
    for images, labels, what in ((x, y, "x and y"), (x_test, y_test, "x_test and y_test")):
        if labels.ndim != 1 or len(images) != len(labels):
            raise MnemonError(
                f"{what} must have one label a sample, not {len(images)} samples and labels {labels.shape}."
            )
    if x.shape[1:] != x_test.shape[1:] or x.dtype != x_test.dtype:
        raise MnemonError(f"x holds {_what(x)} and x_test {_what(x_test)}; they must be of one kind.")
    if len(stream.indices) and int(stream.indices.max()) >= len(x):
        raise MnemonError(f"the stream points to sample {int(stream.indices.max())}, but x has only {len(x)}.")
    for number, classes in enumerate(stream.tasks, 1):
        for label in classes:
            if not (y_test == label).any():
                raise MnemonError(f"class {label!r} of task {number} is empty: x_test has no sample of it.")
    pixels = (
        Inputs(tuple(x.shape[1:]), x.dtype) if x.dtype == torch.uint8 else Inputs(tuple(x.shape[1:]), x.dtype, 0, 1)
    )
    return Task(
        name=stream.kind,
        stream=shuffled(stream, y, epochs, seed),
        x=x.to(device),
        y=y,
        x_test=x_test.to(device),
        y_test=y_test,
        tested=stream.tasks,
        inputs=pixels,
        backbone="auto",
        data={"name": "arrays", "checksum": _checksum(x, y, x_test, y_test), "stream": _checksum(stream.indices)},
    )


def _checksum(*arrays: Tensor | NDArray[Any]) -> str:
    """SHA-256 of the caller's arrays, so that a record says what it was made from."""
    digest = hashlib.sha256()
    for array in arrays:
        a = array.numpy() if isinstance(array, Tensor) else array.astype(str)  # labels may be of any type
        digest.update(f"{a.dtype.str} {a.shape}\n".encode() + a.tobytes())
    return digest.hexdigest()


def _what(x: Tensor) -> str:
    return f"samples of shape {tuple(x.shape[1:])} and type {str(x.dtype).removeprefix('torch.')}"


class Tensors(NamedTuple):
    """An evaluation of one classifier, on the device."""

    accuracy: Tensor  # [tasks], percent
    scores: Tensor  # [tasks], the mean score of the classes of each
    confusion: Tensor | None  # [C, C], after the last task


class Run:
    """The progress of one run. `position` counts the batches learned; `rows` holds one entry per evaluation."""

    def __init__(self, choice: Choice, task: Task, *, seed: int, device: torch.device, bf16: bool = False) -> None:
        self.choice, self.task, self.seed = choice, task, seed
        self.batches, self.ends = task.stream.batches(choice.method.batch_size)
        self.position = 0
        self.rows: list[dict[str, Any]] = []
        self.confusion: dict[str, list[list[int]]] = {}
        self.seconds = {"train": 0.0, "evaluate": 0.0}
        self.learner = Learner(
            choice.method, choice.objective, task.inputs, backbone=task.backbone, seed=seed, device=device, bf16=bf16
        )
        # Class indices in the order of first arrival; classes that are tested but never arrive come last.
        arrived, first = np.unique(task.y[task.stream.indices], return_index=True)
        self.table = LabelTable(arrived[np.argsort(first)])
        self.table.add(label for labels in task.tested for label in labels)
        self.learner.grow(len(self.table))  # room only: no row knows how many others there are
        self.y = torch.from_numpy(self._index(task.y)).to(device)
        self.y_test = torch.from_numpy(self._index(task.y_test)).to(device)
        self.captured: Seat | None = None
        if device.type == "cuda":
            (self.captured,) = seats([self.learner], task.x, [self.y])
        self.launched: NDArray[np.int64] | None = None  # batches on their way
        self.pending: dict[str, Tensors] | None = None  # an evaluation on its way

    def _index(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        """Labels → class indices; −1 for one that neither arrives nor is tested."""
        known, inverse = np.unique(labels, return_inverse=True)
        return self.table.find(known)[inverse]

    @property
    def finished(self) -> bool:
        return len(self.rows) == len(self.ends)

    def advance(self, proceed: Callable[[], bool] = lambda: True) -> None:
        """Learn to the end of the current task and evaluate there, or until `proceed` (asked after each step) says no."""
        evaluated = len(self.rows)
        while len(self.rows) == evaluated:
            self.launch()
            if not self.settle(proceed):
                return

    def launch(self) -> None:
        """Put the next steps on their way, where the device works on its own."""
        busy = self.launched is not None or self.pending is not None
        if self.captured is not None and not busy and not self.finished:
            self.launched, self._since = self._block(), time.perf_counter()
            self.captured.begin(self.launched)
            self.captured.push()

    def push(self) -> bool:
        """Launch some more of the steps that are due. True while the device has something of this run to do."""
        return self.captured is not None and (self.captured.push() or self.captured.busy())

    def settle(self, proceed: Callable[[], bool] = lambda: True) -> bool:
        """Wait for the steps that were launched, or make them now; then evaluate if a task ends with them.

        On a GPU an evaluation, too, is launched only, and waited for when `settle` is called again; and `proceed` is asked
        once for all of these steps. False: it said no before they were all made.
        """
        if self.pending is not None:
            self._collect()
            return proceed()
        if self.captured is not None and self.launched is not None:
            block, start, self.launched = self.launched, self._since, None
            self.captured.wait()
            learned = len(block)
        else:
            block, start = self._block(), time.perf_counter()
            learned = self.learner.learn(self.task.x, self.y, block, proceed)
        self.position += learned
        self.learner.check()
        self.seconds["train"] += time.perf_counter() - start
        if learned < len(block):
            return False
        if self.position == self.ends[len(self.rows)]:
            self._since = time.perf_counter()
            with contextlib.nullcontext() if self.captured is None else self.captured.aside():
                self.pending = self._evaluate(len(self.rows) + 1)
            if self.captured is None:
                self._collect()
        return self.captured is None or proceed()

    def rest(self) -> None:
        """Wait until nothing is on its way."""
        if self.launched is not None and self.captured is not None and self.captured.withdraw():
            self.launched = None
        while self.launched is not None or self.pending is not None:
            self.settle()

    def moment(self) -> float:
        """When the last steps began, on a device that works on its own; now on one that does not."""
        return time.monotonic() if self.captured is None else self.captured.captured.began

    def beside(self, other: Run) -> bool:
        """Whether the two learn as one stack, or are the same."""
        return self is other or (
            self.captured is not None
            and other.captured is not None
            and self.captured.captured is other.captured.captured
        )

    def _block(self) -> NDArray[np.int64]:
        """The next batches: BLOCK of them, or fewer where the task ends."""
        return self.batches[self.position : min(self.position + BLOCK, self.ends[len(self.rows)])]

    def _evaluate(self, learned: int) -> dict[str, Tensors]:
        """Test on the tasks learned so far (all of them where the stream has no tasks of its own); nothing is waited for."""
        tested = self.task.tested
        known = tested[:learned] if len(self.ends) == len(tested) else tested
        device = self.y_test.device
        members = np.stack([np.isin(self.task.y_test, labels) for labels in known])  # [tasks, n]
        chosen = np.flatnonzero(members.any(0))
        # All that comes from the host comes before the passes: what came later would wait for them.
        rows = torch.from_numpy(chosen).to(device)
        masks = torch.from_numpy(members[:, chosen].astype(np.float64)).to(device)
        sizes = torch.from_numpy(members.sum(1)).to(device)
        columns = [torch.from_numpy(self._index(np.array(labels))).to(device) for labels in known]
        place = torch.from_numpy(np.argsort(np.argsort(self.table.labels))).to(device)  # labels in sorted order
        x, y = self.task.x_test.index_select(0, rows), self.y_test.index_select(0, rows)
        found = {}
        for classifier, scores in zip(
            self.choice.classifiers, self.learner.scores(x, self.choice.classifiers), strict=True
        ):
            predicted = scores.argmax(1)
            right = (masks @ (predicted == y).double()) / sizes
            found[classifier.name] = Tensors(
                accuracy=100 * right,
                scores=torch.stack([scores[:, own].double().mean() for own in columns]),
                confusion=_confusion(place[y], place[predicted], len(place)) if learned == len(self.ends) else None,
            )
        return found

    def _collect(self) -> None:
        """Read the evaluation that was launched."""
        assert self.pending is not None
        if self.captured is not None:
            self.captured.wait()
        row: dict[str, Any] = {}
        for name, found in self.pending.items():
            missing = [None] * (len(self.task.tested) - len(found.accuracy))
            means = found.scores.tolist()  # not finite where a class could not be predicted at all
            row[name] = {
                "accuracy": found.accuracy.tolist() + missing,
                "scores": [mean if np.isfinite(mean) else None for mean in means] + missing,
            }
            if found.confusion is not None:
                self.confusion[name] = found.confusion.tolist()
        self.rows.append(row)
        self.pending = None
        self.seconds["evaluate"] += time.perf_counter() - self._since

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
        }

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.learner.restore(tensors, steps=values["steps"], samples=values["samples"])
        self.position, self.rows = values["position"], values["rows"]
        self.confusion, self.seconds = values["confusion"], values["seconds"]


def _confusion(true: Tensor, predicted: Tensor, n: int) -> Tensor:
    """Counts [true, predicted]."""
    return true.new_zeros(n * n).index_add_(0, true * n + predicted, torch.ones_like(true)).reshape(n, n)


def stack(runs: list[Run]) -> None:
    """From here on these runs, of one kind and at the same step, learn as one; where their network can."""
    if len(runs) > 1 and can_stack(runs[0].learner):
        for run in runs:
            if run.captured is not None:
                run.captured.leave()  # or its tensors would wait for Python to find the circle of references
        places = seats([run.learner for run in runs], runs[0].task.x, [run.y for run in runs])
        for run, seat in zip(runs, places, strict=True):
            run.captured = seat
