"""What the detector of drift keeps of each class: how many samples a window holds, their sums, and those of their squares."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray

WINDOWS = (64, 512)  # samples of a class that are compared with those before
COORDINATES = 16

Array = NDArray[np.float64]


class Sums:
    """Counts, sums and sums of squares of each class, for each window; values are bounded, so float64 holds them."""

    def __init__(self, classes: int) -> None:
        self.n = np.zeros((len(WINDOWS), classes))
        self.s = np.zeros((len(WINDOWS), classes, COORDINATES))
        self.q = np.zeros((len(WINDOWS), classes, COORDINATES))

    def tables(self) -> tuple[Array, Array, Array]:
        return self.n, self.s, self.q

    def copy(self) -> Sums:
        made = copy.copy(self)
        made.n, made.s, made.q = (table.copy() for table in self.tables())
        return made

    def regroup(self, to: list[int], classes: int) -> Sums:
        """Class c's sums become part of those of class to[c]."""
        made, to_ = Sums(classes), np.array(to, np.int64)
        stay = np.flatnonzero(to_ >= 0)
        if (to_[stay] == np.arange(len(stay))).all():  # more room only
            for mine, table in zip(made.tables(), self.tables(), strict=True):
                mine[:, : len(stay)] = table[:, stay]
            return made
        for mine, table in zip(made.tables(), self.tables(), strict=True):
            for c in stay:
                mine[:, to_[c]] += table[:, c]
        return made


def total(rows: Array, axis: int = 0) -> Array:
    """The sum over an axis, by PyTorch, which for few columns is many times faster than NumPy. The values are multiples of a
    power of two, so it is exact in any order."""
    return np.asarray(torch.from_numpy(rows).sum(axis).numpy())
