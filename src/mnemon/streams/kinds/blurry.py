"""Blurry (i-Blurry, Koh et al. 2022): some classes come in one task only, the others mainly in one and a little in all.

blurry-DATASET-T-N-M has T tasks. N % of the classes, rounded, are disjoint: all of their samples come in their task. The others
are blurry: M % of the samples of each, rounded, are pooled, and the pool is dealt to the tasks in equal parts, at random; the
rest come in the class's own task. Which classes are disjoint, and in which task a class is at home, is drawn for each seed.
Inside a task the order is random. A learner is not told where tasks end, so batches run across.

Accuracy is measured every 1,000 samples (on a stream shorter than 10,000, ten times) on all classes seen so far.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemon import rng
from mnemon.data import Rules
from mnemon.errors import MnemonError
from mnemon.streams.schedule import Schedule
from mnemon.streams.stream import Stream, check_labels, check_whole, digest

EVERY = 1000  # samples between evaluations, at most
EVALUATIONS = 10  # at least


def blurry(labels: ArrayLike, *, tasks: int = 5, disjoint: int = 50, blur: int = 10, seed: int) -> Stream:
    """Every sample once; `disjoint` percent of the classes, `blur` percent of the samples of the others."""
    y = check_labels(labels)
    classes, y = np.unique(y, return_inverse=True)
    if check_whole("tasks", tasks) < 1 or tasks > len(classes):
        raise MnemonError(f"{len(classes)} classes cannot be dealt to {tasks} tasks.")
    for name, percent in (("disjoint", disjoint), ("blur", blur)):
        if not 0 <= check_whole(name, percent) <= 100:
            raise MnemonError(f"{name} is a percentage from 0 to 100, not {percent}.")
    dealt = rng.permutation(seed, "class order", 0, len(classes))
    is_disjoint, home = _homes(len(classes), tasks, disjoint)
    task_of = np.empty(len(classes), np.int64)
    task_of[dealt] = home
    when = task_of[y]  # the task of each sample
    pool = []
    drawn = rng.permutation(seed, "blur", 0, len(y))
    for c in dealt[~is_disjoint]:
        mine = drawn[y[drawn] == c]
        pool.append(mine[: round(len(mine) * blur / 100)])
    pooled = np.concatenate([np.empty(0, np.int64), *pool])
    pooled = pooled[rng.permutation(seed, "blur", len(y), len(pooled))]
    for task, part in enumerate(np.array_split(pooled, tasks)):
        when[part] = task
    shuffled = rng.permutation(seed, "stream order", 0, len(y))
    n = len(y)
    every = min(EVERY, max(1, n // EVALUATIONS))
    indices = shuffled[np.argsort(when[shuffled], kind="stable")]
    return Stream(
        kind="blurry",
        indices=indices,
        boundaries=(n,),
        tasks=(tuple(classes.tolist()),),
        evaluations=tuple(range(every, n + 1, every)),
        arrivals=digest(classes[y[indices]]),
    )


def _homes(classes: int, tasks: int, disjoint: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Of the classes in the order in which they are dealt: whether each is disjoint, and its task. With as many classes as
    tasks or more, no task is without."""
    count = round(classes * disjoint / 100)
    first = np.array_split(np.zeros(count, np.int64), tasks)
    last = np.array_split(np.zeros(classes - count, np.int64), tasks)[::-1]  # the larger parts at the other end
    home = [part + task for parts in (first, last) for task, part in enumerate(parts)]
    return np.arange(classes) < count, np.concatenate(home)


@dataclass(frozen=True)
class Blurry(Schedule):
    """T tasks, N % disjoint classes, M % blurred samples: i-Blurry-50-10 unless stated."""

    kind: ClassVar[str] = "blurry"
    title: ClassVar[str] = "Blurry"
    usage: ClassVar[str] = "blurry-DATASET[-TASKS-DISJOINT-BLUR]"
    has_tasks: ClassVar[bool] = False
    shuffles_classes: ClassVar[bool] = True
    tasks: int = 5
    disjoint: int = 50
    blur: int = 10

    @classmethod
    def parse(cls, parameters: str) -> Self | None:
        if not parameters:
            return cls()
        match = re.fullmatch(r"([1-9][0-9]{0,3})-(0|[1-9][0-9]{0,2})-(0|[1-9][0-9]{0,2})", parameters)
        if match is None:
            return None
        made = cls(*map(int, match.groups()))
        if max(made.disjoint, made.blur) > 100:
            raise MnemonError(
                f"a Blurry stream ends with its tasks and two percentages, as in -5-50-10, not -{parameters}."
            )
        return made

    def parameters(self, rules: Rules) -> str:
        return f"{self.tasks}-{self.disjoint}-{self.blur}"

    def words(self) -> str:
        return f"{self.tasks} tasks, {self.disjoint} % of the classes disjoint, {self.blur} % blur"

    def describe(self, rules: Rules, classes: int) -> str:
        return f"{self.tasks} tasks, {self.disjoint} % of the classes in one only, {self.blur} % of the others' samples in all"

    def make(self, labels: NDArray[np.int64], rules: Rules, seed: int, order: str) -> Stream:
        if order != "natural":
            raise MnemonError("a Blurry stream deals its classes at random for each seed; leave out the order.")
        return blurry(labels, tasks=self.tasks, disjoint=self.disjoint, blur=self.blur, seed=seed)

    def probabilities(self, classes: int, length: int) -> NDArray[np.float64]:
        """With the classes in the order in which they are dealt, as if all had as many samples."""
        tasks = min(self.tasks, classes)
        is_disjoint, home = _homes(classes, tasks, self.disjoint)
        pooled = np.where(is_disjoint, 0, self.blur / 100)
        amount = (home == np.arange(tasks)[:, None]) * (1 - pooled) + pooled / tasks  # [tasks, classes]
        ends = np.cumsum(amount.sum(1)) / classes * length
        now = np.searchsorted(ends, np.arange(length) + 0.5).clip(max=tasks - 1)  # the task at each time
        return np.asarray((amount / amount.sum(1, keepdims=True))[now])
