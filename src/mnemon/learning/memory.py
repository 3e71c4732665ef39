"""The replay memory: tensors of a fixed size, and who enters and who is drawn, by rules made of keys drawn ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon import rng
from mnemon.errors import MnemonError

EMPTY = -1  # the class of a row that holds no sample


class Column(NamedTuple):
    """What a method keeps beside each memory row: a number, or one for each class."""

    fill: int | float  # what a fresh row holds; an int makes a column of counters
    per_class: bool = False  # [M, capacity] instead of [M]


class Memory:
    """M rows of samples (x), their class indices (y, −1 where a row is free) and what else a method keeps of each.

    Row M is a waste bin: a sample that is not kept is written there, so every step writes the same number of rows.
    """

    def __init__(
        self,
        size: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
        columns: Mapping[str, Column] | None = None,
        *,
        capacity: int = 0,
        floats: torch.dtype = torch.float32,
    ) -> None:
        self.size, self.columns, self.floats = size, dict(columns or {}), floats
        try:
            self.x = torch.zeros((size + 1, *shape), dtype=dtype, device=device)
        except RuntimeError:  # torch's word for "no room"
            raise MnemonError(f"a memory of {size} samples of shape {shape} does not fit on {device}.") from None
        self.y = torch.full((size + 1,), EMPTY, device=device)
        self.extra = {name: self._fresh(column, capacity) for name, column in self.columns.items()}

    def _fresh(self, column: Column, width: int) -> Tensor:
        shape = (self.size + 1, width) if column.per_class else (self.size + 1,)
        dtype = torch.int64 if isinstance(column.fill, int) else self.floats
        return torch.full(shape, column.fill, dtype=dtype, device=self.y.device)

    def grow(self, capacity: int) -> None:
        """Room for more classes in the columns that have a number for each."""
        for name, column in self.columns.items():
            if column.per_class:
                old = self.extra[name]
                self.extra[name] = torch.cat([old, self._fresh(column, capacity - old.shape[1])], dim=1)

    def write(self, slots: Tensor, x: Tensor, y: Tensor, **columns: Tensor) -> None:
        """Row slots[i] ← sample i and its columns; no slot but the waste bin may come twice."""
        self.x[slots], self.y[slots] = x, y
        for name, values in columns.items():
            self.extra[name][slots] = values.to(self.extra[name].dtype)

    def copy(self, source: Tensor, to: Tensor) -> None:
        """Row to[i] ← row source[i]; no row but the waste bin may be in both, or twice in `to`."""
        for table in (self.x, self.y, *self.extra.values()):
            table[to] = table[source]

    def regroup(self, source: Tensor, to: Tensor) -> None:
        """Rows of class c become rows of class to[c], free ones where that is −1. Where a column has a number for each class,
        that of class i becomes the one of class source[i]."""
        self.y = torch.where(self.y == EMPTY, EMPTY, to[self.y.clamp(min=0)])
        for name, column in self.columns.items():
            if column.per_class:
                old, fresh = self.extra[name], self._fresh(column, len(to) - len(source))
                self.extra[name] = torch.cat([old[:, source], fresh, old[:, len(to) :]], dim=1)

    def rearrange(self, rows: Tensor) -> None:
        """Row i ← row rows[i], which may come several times; the rows behind them are free, and nothing is left in them."""
        fills = {name: column.fill for name, column in self.columns.items()}
        for table, fill in ((self.x, 0), (self.y, EMPTY), *((self.extra[name], fill) for name, fill in fills.items())):
            table[: len(rows)] = table[rows]
            table[len(rows) :] = fill


def sample_keys(x: Tensor, y: Tensor) -> list[tuple[bytes, int]]:
    """What tells samples apart: their bytes and their class."""
    table = x.detach().cpu().flatten(1).numpy()
    return [(row.tobytes(), c) for row, c in zip(table, y.tolist(), strict=True)]


def spread(rows: Tensor, count: int) -> Tensor:
    """The first `count` of these rows; where they are fewer, behind them copies of some, taken evenly among them."""
    more = count - len(rows)
    if more <= 0:
        return rows[:count]
    return torch.cat([rows, rows[torch.arange(more, device=rows.device) * len(rows) // more]])


# --- made on the host, ahead of time, from counts alone


def reservoir_slots(seed: int, start: int, steps: int, batch: int, size: int) -> NDArray[np.int64]:
    """Exact reservoir sampling for samples start … start + steps·batch − 1: a slot for each, [steps, batch].

    Sample number N (from 1) takes row N−1 while there is room; then it draws j from 1 … N and takes row j if j ≤ size.
    `size` means "not kept". When two samples of one batch take the same row, the later one has it.
    """
    count = steps * batch
    number = np.arange(start, start + count)  # N − 1
    j = np.floor(write_keys(seed, start, 1, count)[0] * (number + 1)).astype(np.int64)
    slots = np.where(number < size, number, np.minimum(j, size)).reshape(steps, batch)
    order = slots.argsort(axis=1, kind="stable")  # by row, then by arrival
    rows = np.take_along_axis(slots, order, axis=1)
    step, overwritten = (rows[:, :-1] == rows[:, 1:]).nonzero()
    slots[step, order[step, overwritten]] = size
    return slots


def free_slots(start: int, steps: int, batch: int, size: int) -> NDArray[np.int64]:
    """Samples start, start+1, … take the free rows in order; the waste bin when there is none left. [steps, batch]"""
    return np.minimum(np.arange(start, start + steps * batch), size).reshape(steps, batch)


def replay_rows(
    seed: int, step: int, filled: NDArray[np.int64], count: int, purpose: str = "replay"
) -> NDArray[np.int64]:
    """For each of the steps step, step+1, …: `count` different filled rows, uniformly; fewer while fewer are filled."""
    u = rng.uniform(seed, purpose, step * count, len(filled) * count).reshape(len(filled), count)
    return rng.distinct(u[:, : int(filled[0])], filled)


def write_keys(seed: int, start: int, steps: int, batch: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each sample start, start+1, …; [steps, batch]."""
    return rng.uniform(seed, "write", start, steps * batch).reshape(steps, batch)


def row_keys(seed: int, step: int, steps: int, tables: int, size: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each memory row, `tables` times a step; [steps, tables, size]."""
    count = tables * size
    return rng.uniform(seed, "rows", step * count, steps * count).reshape(steps, tables, size)


# --- made in the step, on the device, from the classes in the memory: the same shapes whatever they are


def class_ranks(y: Tensor, keys: Tensor) -> Tensor:
    """The place of each row among the rows of its class, by rising key, from 0; y, keys and the result are [n]."""
    order, _, first = _by_class(y, keys)
    place = torch.arange(len(y), device=y.device) - first
    return torch.zeros_like(place).scatter(0, order, place)


def balanced_order(y: Tensor, keys: Tensor) -> Tensor:
    """All rows in an order in which each is of a class drawn uniformly among those with rows left; y [M], keys [2, M] in
    [0, 1). Free rows come last.

    Every class is a clock that rings after exponential times; at each ring its next row is drawn, the rows of a class coming
    in the order of keys[0]. All clocks being alike, whose ring is next is uniform over the classes. So a row's time is the sum
    of the gaps of its class up to it, and the rows are drawn in the order of their times.
    """
    order, y_sorted, first = _by_class(y, keys[0])
    gap = (-torch.log1p(-keys[1]) * 2**40).long()  # whole numbers: their sums are the same on every device
    sums = gap.cumsum(0)
    times = sums - (sums - gap)[first]
    times = times.masked_fill(y_sorted == EMPTY, torch.iinfo(torch.int64).max)
    return order[times.argsort(stable=True)]


def class_table(y: Tensor, ranks: Tensor, first: int, count: int, classes: int) -> Tensor:
    """The rows of rank first … first+count−1 of every class [classes · count]; the waste bin where a class has none."""
    row = torch.arange(len(y), device=y.device)
    chosen = (y != EMPTY) & (ranks >= first) & (ranks < first + count)
    place = torch.where(chosen, y * count + ranks - first, classes * count)  # one place more, for all others
    return row.new_full((classes * count + 1,), len(y)).scatter(0, place, row)[:-1]


def _by_class(y: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows by class, then by key; their classes; and the place where the class of each begins."""
    order = keys.argsort(stable=True)
    order = order[y[order].argsort(stable=True)]
    y_sorted = y[order]
    return order, y_sorted, torch.searchsorted(y_sorted, y_sorted)
