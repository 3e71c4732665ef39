"""Split: the classes are dealt to T tasks, which arrive one after the other; inside a task the order is random."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemon import rng
from mnemon.data import Rules
from mnemon.errors import MnemonError, check_known
from mnemon.streams.schedule import Schedule
from mnemon.streams.stream import Stream, check_labels, check_whole, digest


def split(labels: ArrayLike, *, tasks: int, seed: int, order: str = "natural") -> Stream:
    """Task k holds the k-th group of classes: in sorted order ("natural", as in the paper), or shuffled ("random")."""
    y = check_labels(labels)
    classes = np.unique(y)
    if check_whole("tasks", tasks) < 1 or tasks > len(classes):
        raise MnemonError(f"{len(classes)} classes cannot be split into {tasks} tasks.")
    check_known("class order", order, ("natural", "random"))
    if order == "random":
        classes = classes[rng.permutation(seed, "class order", 0, len(classes))]
    groups = np.array_split(classes, tasks)

    shuffled = rng.permutation(seed, "stream order", 0, len(y))  # one shuffle; each task keeps its part of it
    parts = [shuffled[np.isin(y[shuffled], group)] for group in groups]
    indices = np.concatenate(parts)
    return Stream(
        kind="split",
        indices=indices,
        boundaries=tuple(int(end) for end in np.cumsum([len(part) for part in parts])),
        tasks=tuple(tuple(group.tolist()) for group in groups),
        arrivals=digest(y[indices]),
    )


@dataclass(frozen=True)
class Split(Schedule):
    kind: ClassVar[str] = "split"
    title: ClassVar[str] = "Split"
    usage: ClassVar[str] = "split-DATASET[-TASKS]"
    has_tasks: ClassVar[bool] = True
    tasks: int = 0  # 0: the dataset's default

    @classmethod
    def parse(cls, parameters: str) -> Self | None:
        if not parameters:
            return cls()
        return cls(int(parameters)) if re.fullmatch(r"[1-9][0-9]{0,5}", parameters) else None

    @classmethod
    def listed(cls, rules: Rules) -> Sequence[Self]:
        return [cls(tasks) for tasks in rules.tasks or (0,)]

    def parameters(self, rules: Rules) -> str:
        """A dataset that the paper splits in several ways has the number of tasks in every name."""
        tasks = self.tasks or (rules.tasks[0] if rules.tasks else 0)
        return "" if not tasks or (tasks,) == rules.tasks else str(tasks)

    def words(self) -> str:
        return f"{self.tasks} tasks" if self.tasks else ""

    def describe(self, rules: Rules, classes: int) -> str:
        return f"{self._count(rules, classes)} tasks of disjoint classes, in turn"

    def notice(self, rules: Rules, classes: int) -> str:
        """Tasks of different sizes: 10 classes in 3 tasks are 4, 3 and 3."""
        tasks = self._count(rules, classes)
        if tasks > classes or classes % tasks == 0:
            return ""
        *sizes, last = map(len, np.array_split(range(classes), tasks))
        return f"tasks of {', '.join(map(str, sizes))} and {last} classes"

    def make(self, labels: NDArray[np.int64], rules: Rules, seed: int, order: str) -> Stream:
        return split(labels, tasks=self._count(rules, len(np.unique(labels))), seed=seed, order=order)

    def _count(self, rules: Rules, classes: int) -> int:
        default = rules.tasks[0] if rules.tasks else 10 if classes >= 100 else max(1, classes // 2)
        return self.tasks or default
