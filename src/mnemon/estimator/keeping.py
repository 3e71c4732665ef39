"""Which rows of the memory new samples take, where the stream was not prepared: rules on top of the reservoir's.

    floor       every class keeps a few rows: those of a class that has no more are not taken by others, and a sample of a
                class that has fewer is always kept
    half_life   after so many further samples of its class a row is still there with probability 1/2
    stale       a class has drifted: its rows are replaced by the samples of it that come next

The rules are applied on the host, sample by sample, to what the reservoir planned; like the plan, the result is a function
of the seed and of the samples so far, so learning goes on from a saved model bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mnemon import rng
from mnemon.learning.memory import EMPTY
from mnemon.learning.method import Plan, Span

FLOOR = 10  # rows of a class that others do not take, where half of the memory is enough for that
RENEWED = 8  # of a drifted class's old rows this part is replaced with each sample of it


def floor(size: int, classes: int) -> int:
    """Rows that each of so many classes keeps; 0: the memory has no room for a row each."""
    return 0 if classes > size else max(1, min(FLOOR, size // (2 * max(1, classes))))


@dataclass
class Rows:
    """The memory's rows as the next step finds them."""

    y: NDArray[np.int64]  # [size] their classes
    stale: NDArray[np.bool_]  # [size] of a class that has drifted, from before
    count: NDArray[np.int64]  # [capacity] rows of each class

    @classmethod
    def of(cls, y: NDArray[np.int64], stale: NDArray[np.bool_], capacity: int) -> Rows:
        return cls(y.copy(), stale.copy(), np.bincount(y[y != EMPTY], minlength=capacity))

    def take(self, row: int, c: int) -> int:
        """Give a row to class c; returns the class that has no row any more, or EMPTY."""
        old = int(self.y[row])
        self.y[row], self.stale[row] = c, False
        self.count[c] += 1
        if old != EMPTY:
            self.count[old] -= 1
        return old if old != EMPTY and self.count[old] == 0 else EMPTY


class Keeper:
    """Applies the rules to the plan of some steps."""

    def __init__(self, rows: Rows, span: Span, half_life: float | None) -> None:
        self.rows, self.span, self.size = rows, span, len(rows.y)
        self.lost = 0.0 if half_life is None else 1 - 0.5 ** (1 / half_life)  # of the rows of a class, at each sample
        self.known = span.counts > 0
        self.classes = int(self.known.sum())
        count = span.steps * span.batch
        self.keys = rng.uniform(span.seed, "age", 2 * span.sample, 2 * count).reshape(count, 2)
        self.taken: set[int] = set()  # rows written in the step at hand

    def plan(self, slots: NDArray[np.int64]) -> Plan:
        """From the reservoir's slots [steps, batch] to those the samples take (`write`), and where something is to be done:
        rows that become copies (`copy`, [steps, 2, k]), rows whose class has no other (`leave`, [steps, k]), and samples
        that are not kept and whose class has no row (`apart`, [steps, k]); the waste bin, or the batch's size, fills up."""
        write = np.empty_like(slots)
        copies: list[list[tuple[int, int]]] = []
        leave: list[list[int]] = []
        apart: list[list[int]] = []
        for step, (planned, classes) in enumerate(zip(slots.tolist(), self.span.classes.tolist(), strict=True)):
            self.taken = set()
            copies.append([])
            leave.append([])
            apart.append([])
            for i, (slot, c) in enumerate(zip(planned, classes, strict=True)):
                row, copied = self._row(step * self.span.batch + i, slot, c)
                write[step, i] = row
                if row == self.size:
                    if self.rows.count[c] == 0:
                        apart[-1].append(i)
                    continue
                if self.rows.take(row, c) != EMPTY:
                    leave[-1].append(row)
                self.taken.update((row, *copied))
                copies[-1] += [(row, to) for to in copied]
        found: Plan = {"write": write}
        if any(copies):
            pairs = [[row for row, _ in each] for each in copies], [[to for _, to in each] for each in copies]
            found["copy"] = np.stack([_padded(each, self.size) for each in pairs], 1)
        if any(leave) or any(apart):
            found |= {"leave": _padded(leave, self.size), "apart": _padded(apart, self.span.batch)}
        return found

    def _row(self, number: int, slot: int, c: int) -> tuple[int, list[int]]:
        """The row that sample `number` of the span takes, of class c, and the rows that become copies of it."""
        if not self.known[c]:
            self.known[c] = True
            self.classes += 1
        fills = self.span.sample + number < self.size
        if fills:  # in order, one row each; the reservoir may give a row to a later sample of the batch
            slot = self.span.sample + number
        u, v = self.keys[number].tolist()
        renewed, ageing = self._renewed(c), []
        if not renewed and self.lost:
            ageing = self._ageing(c, u, v)
        if renewed and not fills:
            return renewed[0], renewed[1:]
        if ageing and slot == self.size:
            return ageing[0], ageing[1:]
        if not fills:
            least = floor(self.size, self.classes)
            if slot == self.size and self.rows.count[c] < least:
                slot = int(v * self.size)
            if slot < self.size:
                slot = self._spared(slot, c, least)
        return (slot, []) if slot == self.size else (slot, [row for row in renewed + ageing if row != slot])

    def _renewed(self, c: int) -> list[int]:
        """Rows of a class that has drifted, to be replaced now; the first one for good, the others until their turn comes."""
        if not self.rows.stale.any():
            return []
        old = np.flatnonzero(self.rows.stale & (self.rows.y == c))
        old = old[: -(-len(old) // RENEWED)]
        return [row for row in old.tolist() if row not in self.taken]

    def _ageing(self, c: int, u: float, v: float) -> list[int]:
        """Rows of the class whose time is over, chosen evenly from a random place on."""
        own = np.flatnonzero(self.rows.y == c)
        ends = int(len(own) * self.lost + u)
        if not ends:
            return []
        chosen = own[(int(v * len(own)) + np.arange(ends) * len(own) // ends) % len(own)]
        return [row for row in chosen.tolist() if row not in self.taken]

    def _spared(self, slot: int, c: int, least: int) -> int:
        """The first row from `slot` on, round the memory, that class c may take; the waste bin if there is none."""
        y, count = self.rows.y, self.rows.count
        if slot not in self.taken and (y[slot] == c or count[y[slot]] > least):
            return slot
        free = (count[y] > least) | (y == c)
        if self.taken:
            free[list(self.taken)] = False
        if count[c] < least:  # it shall grow; else its own rows are as good as any
            free &= y != c
        places = np.flatnonzero(free)
        if not len(places):
            return self.size
        return int(places[np.searchsorted(places, slot) % len(places)])


def _padded(lists: list[list[int]], fill: int) -> NDArray[np.int64]:
    """Lists of different lengths as the rows of a table."""
    table = np.full((len(lists), max(map(len, lists))), fill, np.int64)
    for row, values in zip(table, lists, strict=True):
        row[: len(values)] = values
    return table
