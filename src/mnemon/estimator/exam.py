"""The exam: samples of each class that are held out of learning, so that the model can be asked what it was never told.

Every tenth sample of a class is held out. Once `limit` of a class are, each further one takes the place of the oldest,
which is learned in its stead: at most `limit` samples of a class are ever missing from learning, and the exam is as recent
as the class is, also where the class changes. Which samples are held out depends on the samples of their class alone, not
on the chunks they come in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.learning.learner import Inputs
from mnemon.learning.memory import sample_keys

EVERY = 10  # samples of a class, of which the last is held out
GROWS = 2.0  # times the largest value so far: a counter grows, and is nothing unusual …
LARGE = 1e9  # … up to here
COUNTS = 2**53


class Exam:
    """Raw samples by class, on the host. Their tensors are replaced, never written to, so copies may share them."""

    def __init__(self, limit: int, inputs: Inputs) -> None:
        self.limit, self.inputs = limit, inputs
        self.rows: dict[int, Tensor] = {}  # class → its samples [k, …], the oldest first
        self.arrivals = np.zeros(0, np.int64)  # [classes], samples of each that came, held out or not
        self.largest = 0.0  # absolute value that was learned so far

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    # --- learning

    def hold_out(self, x: Tensor, y: NDArray[np.int64]) -> tuple[Tensor, NDArray[np.bool_]]:
        """Take from a chunk x [n, …] of the classes y [n] what belongs here. Returns the chunk with the samples that are
        learned instead in the places of those taken, and True [n] where there is none, so that nothing is to be learned."""
        self._grow(int(y.max()) + 1)
        number = self.arrivals[y] + _ranks(y) + 1
        taken = (number % EVERY == 0) & self._ordinary(x)
        self.arrivals += np.bincount(y, minlength=len(self.arrivals))
        nothing, learned = np.zeros(len(y), np.bool_), x
        for c, at in _by_class(y, np.flatnonzero(taken)):
            known = self.rows.get(c, x[:0])
            queue = torch.cat([known, x[torch.from_numpy(at)]])
            leaving = max(len(queue) - self.limit, 0)
            self.rows[c] = queue[leaving:].clone()
            nothing[at[: len(at) - leaving]] = True
            if leaving:
                learned = x.clone() if learned is x else learned
                learned[torch.from_numpy(at[len(at) - leaving :])] = queue[:leaving]
        return learned, nothing

    def _ordinary(self, x: Tensor) -> NDArray[np.bool_]:
        """Whether a sample has no value of another size than those before it. One that has may make learning fail: then it must
        fail with its own chunk, and not later with the one in which it would leave the exam."""
        if not x.is_floating_point():
            return np.ones(len(x), np.bool_)
        most = float(torch.stack(x.aminmax()).abs().max())
        if most <= max(self.largest, min(GROWS * self.largest, LARGE)):  # none can be: no need to look at each
            self.largest = max(self.largest, most)
            return np.ones(len(x), np.bool_)
        low, high = x.flatten(1).aminmax(dim=1)
        sizes = torch.maximum(-low, high).double().numpy()
        before = np.maximum.accumulate(np.concatenate([[self.largest], sizes]))
        self.largest = float(before[-1])
        found: NDArray[np.bool_] = sizes <= np.maximum(before[:-1], np.minimum(GROWS * before[:-1], LARGE))
        return found

    def _grow(self, classes: int) -> None:
        more = classes - len(self.arrivals)
        if more > 0:
            self.arrivals = np.concatenate([self.arrivals, np.zeros(more, np.int64)])

    # --- asking

    def sample(self, most: int) -> tuple[Tensor, Tensor]:
        """At most `most` samples and their classes, equally many of each class where it has them, the newest ones."""
        classes = sorted(self.rows)
        if len(classes) > most:
            classes = [classes[i * len(classes) // most] for i in range(most)]
        each = max(most // max(len(classes), 1), 1)
        return self._table({c: self.rows[c][-each:] for c in classes})

    def _table(self, rows: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """Samples and their classes, by class."""
        none = torch.zeros(0, *self.inputs.shape, dtype=self.inputs.dtype)
        y = [torch.full((len(rows[c]),), c, dtype=torch.int64) for c in sorted(rows)]
        return torch.cat([none, *(rows[c] for c in sorted(rows))]), torch.cat([torch.zeros(0, dtype=torch.int64), *y])

    # --- as a part of a model

    def copy(self) -> Self:
        made = type(self)(self.limit, self.inputs)
        made.rows, made.arrivals, made.largest = dict(self.rows), self.arrivals.copy(), self.largest
        return made

    def state(self) -> dict[str, Tensor]:
        x, y = self._table(self.rows)
        largest = torch.tensor(self.largest, dtype=torch.float64)
        return {"x": x, "y": y, "arrivals": torch.from_numpy(self.arrivals.copy()), "largest": largest}

    def restore(self, state: dict[str, Tensor], classes: int) -> None:
        own = self.state()
        if own.keys() != state.keys() or any(own[name].dtype != tensor.dtype for name, tensor in state.items()):
            raise ValueError("its exam is none")
        x, y, arrivals, largest = (state[name] for name in ("x", "y", "arrivals", "largest"))
        n = len(y) if y.ndim == 1 else -1
        if x.shape != (n, *self.inputs.shape) or arrivals.ndim != 1 or len(arrivals) > classes or largest.ndim:
            raise ValueError("its exam does not match its samples or its classes")
        counts = np.bincount(y.numpy(), minlength=len(arrivals)) if bool((y >= 0).all()) else np.full(1, -1)
        if len(counts) != len(arrivals) or (counts > arrivals.numpy()).any() or bool((y.diff() < 0).any()):
            raise ValueError("its exam holds samples of classes that never came")
        if counts.max(initial=0) > self.limit:
            raise ValueError("its exam holds more samples of a class than it may")
        most = float(x.abs().max()) if x.is_floating_point() and x.numel() else 0.0
        if not 0 <= float(largest) < np.inf or not most <= max(float(largest), 0.0):
            raise ValueError("its exam is out of range")
        if arrivals.numel() and not 0 <= int(arrivals.min()) <= int(arrivals.max()) < COUNTS:
            raise ValueError("its exam counts what cannot have come")
        self.arrivals, self.largest = arrivals.numpy().copy(), float(largest)
        parts = torch.split(x, counts.tolist())
        self.rows = {c: part.clone() for c, part in enumerate(parts) if len(part)}

    def recode(self, a: Tensor, b: Tensor) -> None:
        self.inputs = self.inputs._replace(shape=(len(b),))
        self.rows = {c: (x.double() @ a.T + b).to(x.dtype) for c, x in self.rows.items()}

    def regroup(self, to: list[int]) -> None:
        """Classes that become one have the samples of all; `cut` takes out those that are too many."""
        self._grow(len(to))
        together: dict[int, list[Tensor]] = {}
        for c in sorted(self.rows):
            together.setdefault(to[c], []).append(self.rows[c])
        stay = np.array(to) >= 0
        arrivals = np.zeros(max(to, default=-1) + 1, np.int64)
        np.add.at(arrivals, np.array(to)[stay], self.arrivals[stay])
        self.arrivals = arrivals
        self.rows = {c: _joined(parts) for c, parts in together.items() if c >= 0}

    def forget(self, x: Tensor, y: Tensor) -> Tensor:
        """Each sample takes one that equals it from here, where there is one."""
        gone = torch.zeros(len(y), dtype=torch.bool)
        for c, at in _by_class(y.numpy(), np.arange(len(y))):
            if c not in self.rows:
                continue
            rows = self.rows[c]
            places: dict[tuple[bytes, int], list[int]] = {}
            for i, key in enumerate(sample_keys(rows, torch.full((len(rows),), c))):
                places.setdefault(key, []).append(i)
            kept = set(range(len(rows)))
            for i, key in zip(at.tolist(), sample_keys(x[torch.from_numpy(at)], y[torch.from_numpy(at)]), strict=True):
                if places.get(key):
                    kept.remove(places[key].pop())
                    gone[i] = True
            self._keep(c, rows[sorted(kept)])
        return gone

    def merge(self, other: Self, classes: Tensor) -> None:
        """Classes that are one have the samples of both; `cut` takes out those that are too many."""
        index = classes.tolist()
        self._grow(max(index, default=-1) + 1)
        for c, n in enumerate(other.arrivals.tolist()):
            self.arrivals[index[c]] += n
        for c in sorted(other.rows):
            mine, its = self.rows.get(index[c]), other.rows[c]
            self.rows[index[c]] = its if mine is None else _joined([mine, its])
        self.largest = max(self.largest, other.largest)

    def cut(self) -> tuple[Tensor, Tensor]:
        """Take out the oldest samples of each class beyond the limit: samples and classes, which are to be learned now."""
        over = {c: rows[: len(rows) - self.limit] for c, rows in self.rows.items() if len(rows) > self.limit}
        for c in over:
            self._keep(c, self.rows[c][len(over[c]) :].clone())
        return self._table(over)

    def take(self, c: int) -> tuple[Tensor, Tensor]:
        """Take out all samples of a class: samples and classes, which are to be learned now."""
        rows = self.rows.pop(c, None)
        return self._table({} if rows is None else {c: rows})

    def _keep(self, c: int, rows: Tensor) -> None:
        self.rows[c] = rows
        if not len(rows):
            del self.rows[c]


def _ranks(y: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many samples of its class are before a sample [n]."""
    order = np.argsort(y.astype(np.uint16), kind="stable")  # a class fits, and is sorted in linear time
    ordered = y[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    starts = np.repeat(first, np.diff(first, append=len(y)))
    ranks = np.empty_like(y)
    ranks[order] = np.arange(len(y)) - starts
    return ranks


def _by_class(y: NDArray[np.int64], at: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each class among the samples at these places, and its places in their order."""
    ordered = at[np.argsort(y[at], kind="stable")]
    for part in np.split(ordered, np.flatnonzero(np.diff(y[ordered])) + 1):
        if len(part):
            yield int(y[part[0]]), part


def _joined(parts: Iterable[Tensor]) -> Tensor:
    """Samples of several classes, each the oldest first, as those of one: by age, counted in samples of their own class."""
    parts = list(parts)
    age = torch.cat([torch.arange(len(part), 0, -1) for part in parts])
    return torch.cat(parts)[age.argsort(descending=True, stable=True)]
