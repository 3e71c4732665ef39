"""Split: the classes are dealt to T tasks, which arrive one after the other; inside a task the order is random."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import ArrayLike

from mnemon import rng
from mnemon.errors import MnemonError, unknown
from mnemon.streams.stream import Stream, check_labels


def split(labels: ArrayLike, *, tasks: int, seed: int, order: str = "natural") -> Stream:
    """Task k holds the k-th group of classes: in sorted order ("natural", as in the paper), or shuffled ("random")."""
    y = check_labels(labels)
    classes = np.unique(y)
    if operator.index(tasks) < 1 or tasks > len(classes):
        raise MnemonError(f"{len(classes)} classes cannot be split into {tasks} tasks.")
    if order not in ("natural", "random"):
        raise unknown("class order", order, ("natural", "random"))
    if order == "random":
        classes = classes[rng.permutation(seed, "class order", 0, len(classes))]
    groups = np.array_split(classes, tasks)

    shuffled = rng.permutation(seed, "stream order", 0, len(y))  # one shuffle; each task keeps its part of it
    parts = [shuffled[np.isin(y[shuffled], group)] for group in groups]
    return Stream(
        kind="split",
        indices=np.concatenate(parts),
        boundaries=tuple(int(end) for end in np.cumsum([len(part) for part in parts])),
        tasks=tuple(tuple(group.tolist()) for group in groups),
    )
