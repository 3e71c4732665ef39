"""What every stream is: an order of indices, the ends of its tasks, and the classes of each task."""

from __future__ import annotations

import hashlib
import operator
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemon.errors import MnemonError

KIND = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Stream:
    """`indices` points into the labels the stream was made from, one entry for each sample in the order of arrival.

    Lists and NumPy's numbers are taken too, and become what is declared here.
    """

    kind: str  # "iid", or one of `kinds`: "split", "smooth" …
    indices: NDArray[np.int64]  # [n]
    boundaries: tuple[int, ...]  # the end of each task, as a position in `indices`
    tasks: tuple[tuple[Any, ...], ...]  # the labels of each task
    # positions at which the classes seen so far are tested; (): at the end of each task
    evaluations: tuple[int, ...] = ()
    arrivals: str = ""  # `digest` of the labels in the order of arrival; "": not known

    def __post_init__(self) -> None:
        if not KIND.fullmatch(self.kind):  # it is part of the names of files
            raise MnemonError(f"the kind of a stream is a word of letters, digits and - _ . signs, not {self.kind!r}.")
        indices = np.asarray(self.indices)
        if indices.ndim != 1 or indices.dtype.kind not in "iu" or not len(indices) or indices.min() < 0:
            raise MnemonError("the indices of a stream are a list of whole numbers from 0 on, at least one.")
        ends = [check_whole("the end of a task", end) for end in self.boundaries]
        if ends != sorted({*ends}) or ends[:1] <= [0] or ends[-1] != len(indices):
            raise MnemonError(
                f"the boundaries of a stream are the ends of its tasks, each above the one before and the last {len(indices)}, "
                f"the number of its samples; not {ends}."
            )
        due = tuple(check_whole("an evaluation's position", position) for position in self.evaluations)
        tasks = tuple(
            tuple(label.item() if isinstance(label, np.generic) else label for label in labels) for labels in self.tasks
        )
        object.__setattr__(self, "indices", indices.astype(np.int64, copy=False))
        object.__setattr__(self, "boundaries", tuple(ends))
        object.__setattr__(self, "tasks", tasks)
        object.__setattr__(self, "evaluations", due)

    def batches(self, size: int) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """Cut each task into batches of `size`: index matrix [S, size], and after how many batches each task ends.

        Batches never cross a boundary and an incomplete last one is left out, as in the code the paper builds on. Where the
        stream has `evaluations`, the second value is after how many batches each is due, and one at the end.
        """
        rows: list[NDArray[np.int64]] = []
        ends: list[int] = []
        start = total = 0
        for number, stop in enumerate(self.boundaries, 1):
            count = (stop - start) // size
            if count == 0:
                raise MnemonError(
                    f"task {number} has {stop - start} samples, less than one batch of {size}; use a smaller batch size."
                )
            rows.append(self.indices[start : start + count * size].reshape(count, size))
            total += count
            ends.append(total)
            start = stop
        if self.evaluations:
            due = {position // size for position in self.evaluations} | {total}
            ends = sorted(count for count in due if 0 < count <= total)
        return np.concatenate(rows), tuple(ends)


def digest(labels: NDArray[Any]) -> str:
    """SHA-256 of labels; equal labels of different types (int32 and int64, text and objects) have the same."""
    classes, inverse = np.unique(labels, return_inverse=True)
    if classes.dtype.kind in "bf" and (classes == classes.astype(np.int64)).all():
        classes = classes.astype(np.int64)
    names = "\n".join(map(repr, map(str, classes.tolist())))
    return hashlib.sha256(names.encode() + b"\n" + inverse.astype("<i8").tobytes()).hexdigest()


def check_whole(name: str, value: Any) -> int:
    """A whole number, or one sentence."""
    try:
        return operator.index(value)
    except TypeError:
        raise MnemonError(f"{name} must be a whole number, not {value!r}.") from None


def check_labels(labels: ArrayLike) -> NDArray[Any]:
    """Labels as a 1-d array, or one sentence."""
    y = np.asarray(labels)
    if y.ndim != 1 or len(y) == 0:
        raise MnemonError(f"labels must be a non-empty list, one label a sample, not an array of shape {y.shape}.")
    kinds = {type(label) for label in y} if y.dtype.kind == "O" else set()
    if len(kinds) == 1 and kinds <= {str, int, bool}:  # as pandas keeps text
        y = np.array(y.tolist())
    if y.dtype.kind not in "biuU":
        raise MnemonError(f"labels must be all of one type, int, bool or str, not {y.dtype}.")
    return y
