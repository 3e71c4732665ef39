"""Drift: a class whose samples are no longer what they were is noticed, and followed where that is asked for.

A detector for each class compares the mean of its last samples with the mean of those before. It reads the samples as they
come, not what a model makes of them: so learning, new classes and the order of the classes are no drift. Two conditions
make an alarm:

    significant   the mean of the last 64 samples of the class, or of the last 512, and that of all before differ by more than
                  Bernstein's inequality allows, on one of 16 coordinates (the features, or signed sums of them where there
                  are more). The chance of a false alarm is spread over coordinates and all tests to come, so for samples
                  of a class that are independent and alike it is about RISK for a class at most, however long the stream
                  and whatever the distribution ("about": the variance in the bound is an estimate).
    relevant      the class has moved at least half as far as the nearest other class is away.

The first 64 samples of the stream give the units of the features; the first 64 of a class are what later ones are compared
with. What comes in an order of its own within a class (films, one writer after the other) is no independent sample and may
look like drift.
"""

from __future__ import annotations

import copy
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon import rng
from mnemon.estimator.sums import COORDINATES, WINDOWS, Array, Sums, total
from mnemon.learning.labels import Label

UNITS = 64  # samples that give the features their units
CLIP = 5.0  # of these units: one absurd value is no drift
RISK = 1e-4  # chance of a false alarm of a class, ever
MOVED = 0.5  # of the way to the nearest other class
PLACED = 8  # samples of another class from which on its place is known
GRID = 2.0**-12  # values are multiples of it, so that sums over a window are exact and do not depend on the chunks
COUNTS = 2**53
FLOAT32 = float(np.finfo(np.float32).max)
WORD = "drift: "  # how the sentence about it begins
LEAST = 0.01  # variance of a coordinate, in its units
PIECE = (256, 16_384)  # samples looked at together: few in the beginning, while the classes find their places …
VALUES = 2**21  # … and so many that their values stay in a processor's caches


class Drift(NamedTuple):
    """One event of `drift_`."""

    when: int  # samples learned before it was noticed, the one that showed it included
    classes: tuple[Label, ...]  # that drifted
    samples: int  # samples of the class by then


class Alarm(NamedTuple):
    """A class has drifted."""

    position: int  # of the sample in the chunk that showed it
    c: int
    samples: int  # of the class since it was watched, this one included


class Windows(NamedTuple):
    """The windows that samples of a class fill, and what each is compared with."""

    ends: NDArray[np.int64]  # [w] where they end among these samples
    n: Array  # [w + 1] samples before the first window, and after each
    s: Array  # [w + 1, k] their sums
    q: Array  # [w + 1, k] and squares


class Detector:
    """The part of a model that watches its classes."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.shape, self.seed = shape, seed
        d = int(np.prod(shape))
        self.count = 0  # samples the units are made of
        self.mean, self.squares = np.zeros(d), np.zeros(d)
        self.seen = 0  # samples in all
        self.before, self.now = Sums(0), Sums(0)  # those compared with, and the window that fills
        self.samples = np.zeros(0, np.int64)  # of each class, ever
        self.tests = np.zeros(0, np.int64)
        self.aged = np.zeros(0, bool)  # classes of which old samples count less
        self.events = np.zeros((0, 3), np.int64)  # when, class, samples of the class
        self._map: tuple[Tensor, Tensor, Tensor | None, Array] | None = None

    # --- watching

    def observe(self, x: Tensor, y: Tensor, classes: int) -> list[Alarm]:
        """Watch samples x [n, …] of classes y [n], of which there are `classes` now; what changed, in order."""
        self._grow(classes)
        found: list[Alarm] = []
        start = self._take_units(x, y)
        most = max(PIECE[0], min(PIECE[1], VALUES // len(self.mean)))
        while start < len(x):
            stop = start + int(np.clip(self.seen, PIECE[0], most))
            found += self._observe(x[start:stop], y[start:stop].numpy(), start)
            self.seen += len(y[start:stop])
            start = stop
        return sorted(found)

    def note(self, when: int, alarm: Alarm, *, aged: bool) -> None:
        """Keep an event: the class drifted, and whether its old samples count less from now on."""
        self.events = np.concatenate([self.events, [[when, alarm.c, alarm.samples]]])
        self.aged[alarm.c] |= aged

    def drifts(self, labels: list[Label]) -> list[Drift]:
        return [Drift(when, (labels[c],), samples) for when, c, samples in self.events.tolist()]

    def _take_units(self, x: Tensor, y: Tensor) -> int:
        """The first samples of the stream give the units; how many these are."""
        taken = min(UNITS - self.count, len(x))
        for row in x[:taken].flatten(1).double().numpy():
            self.count += 1
            gap = row - self.mean
            self.mean += gap / self.count
            self.squares += gap * (row - self.mean)
        self.samples += np.bincount(y[:taken].numpy(), minlength=len(self.samples))
        self.seen += taken
        return taken

    def _coordinates(self, x: Tensor) -> Array:
        """What is watched of samples [n, COORDINATES]."""
        if self._map is None:
            self._map = self._new_map()
        mean, scale, signs, parts = self._map
        z = x.flatten(1).to(torch.float32).sub(mean).mul_(scale).clamp_(-CLIP, CLIP)
        z.div_(GRID).round_().mul_(GRID)
        if signs is None:
            out = np.zeros((len(x), COORDINATES))
            out[:, : z.shape[1]] = z.numpy()
            return out
        sums: Array = (z @ signs).double().numpy()
        sums /= np.sqrt(parts) * GRID
        np.rint(sums, out=sums)
        sums *= GRID
        return sums

    def _new_map(self) -> tuple[Tensor, Tensor, Tensor | None, Array]:
        """Mean and scale of each feature, and the signed sums with the number of parts of each."""
        variance, d = self.squares / max(1, self.count), len(self.mean)
        if len(self.shape) == 3:  # pixels have one unit
            variance = np.full(d, variance.mean())
        std = np.sqrt(variance)
        varies = std > 1e-6 * np.abs(self.mean)
        std = np.where(varies, std, np.median(std[varies]) if varies.any() else 1.0)
        signs, parts = None, np.ones(COORDINATES)
        if d > COORDINATES:  # each feature has a sign, and a place in one of the sums
            words = rng.words(self.seed, "sketch", 0, d)
            places = (words >> np.uint64(1)) % np.uint64(COORDINATES)
            table = np.zeros((d, COORDINATES), np.float32)
            table[np.arange(d), places.astype(np.int64)] = np.where(words & np.uint64(1), 1.0, -1.0)
            signs, parts = torch.from_numpy(table), np.maximum(1.0, np.abs(table).sum(0))
        return torch.from_numpy(self.mean).float(), torch.from_numpy(1 / std).float(), signs, parts

    def _observe(self, x: Tensor, y: NDArray[np.int64], offset: int) -> list[Alarm]:
        order = np.argsort(y.astype(np.uint16), kind="stable")  # a class fits, and is sorted in linear time
        rows, ordered = self._coordinates(x)[order], y[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        classes, counts = ordered[starts], np.diff(starts, append=len(y))
        found: list[Alarm] = []
        full = (self.now.n[:, classes] + counts >= np.array(WINDOWS)[:, None]).any(0)
        for c, start, count in zip(classes[full], starts[full], counts[full], strict=True):
            places = order[start : start + count] + offset
            found += self._one_class(int(c), rows[start : start + count], places)
        if not full.all():
            few, member = classes[~full], np.repeat(~full, counts)
            rows = rows[member]
            bounds = np.concatenate([[0], counts[~full].cumsum()[:-1]])
            self.now.n[:, few] += counts[~full]
            self.now.s[:, few] += np.add.reduceat(rows, bounds)
            self.now.q[:, few] += np.add.reduceat(rows * rows, bounds)
            self.samples[few] += counts[~full]
        return found

    def _one_class(self, c: int, rows: Array, places: NDArray[np.int64]) -> list[Alarm]:
        """Watch samples of one class, which stand at `places` in the chunk."""
        found: list[Alarm] = []
        while len(rows):
            squares = rows * rows
            windows = [self._windows(c, level, rows, squares) for level in range(len(WINDOWS))]
            ends = [self._first_alarm(c, level, each) for level, each in enumerate(windows)]
            stop = min([end for end in ends if end] or [0])  # samples up to the first alarm; 0: there is none
            ends_, n, *_ = windows[0]
            self.tests[c] += int(((n[:-1] >= WINDOWS[0]) & (ends_ <= (stop or len(rows)))).sum())
            self.samples[c] += stop or len(rows)
            if not stop:
                for level, each in enumerate(windows):
                    self._take(c, level, rows, squares, each)
                break
            found.append(Alarm(int(places[stop - 1]), c, int(self.samples[c])))
            for sums in (self.before, self.now):  # what comes next is compared with what comes next
                for table in sums.tables():
                    table[:, c] = 0.0
            rows, places = rows[stop:], places[stop:]
        return found

    def _windows(self, c: int, level: int, rows: Array, squares: Array) -> Windows:
        width, held = WINDOWS[level], int(self.now.n[level, c])
        ends = np.arange(width - held, len(rows) + 1, width)
        before = [table[level, c] for table in self.before.tables()]
        if not len(ends):
            return Windows(ends, before[0][None], before[1][None], before[2][None])
        found = []
        for was, begun, values in ((before[1], self.now.s, rows), (before[2], self.now.q, squares)):
            whole = values[ends[0] : ends[-1]].reshape(-1, width, COORDINATES)
            first = begun[level, c] + total(values[: ends[0]])
            found.append(np.cumsum(np.concatenate([[was], [first], total(whole, 1)]), 0))
        return Windows(ends, before[0] + width * np.arange(len(ends) + 1.0), found[0], found[1])

    def _first_alarm(self, c: int, level: int, windows: Windows) -> int:
        """How many samples it takes to an alarm; 0: there is none."""
        ends, n, s, q = windows
        if not len(ends):
            return 0
        width, many = WINDOWS[level], np.maximum(n[:-1], 2)[:, None]
        old, new = s[:-1] / many, np.diff(s, axis=0) / width
        of_old = q[:-1] / many - old**2
        of_new = np.diff(q, axis=0) / width - new**2
        ready = n[:-1] >= width
        number = self.tests[c] + np.cumsum(ready)
        # Of rare values a window may have none: then its own variance says nothing.
        noise = np.maximum(of_old, of_new) * (1 / (width - 1) + 1 / many)  # variance of the difference
        gap = new - old
        # RISK / 2 for each window, of which the parts 6/π² · 1/i² for the tests i = 1, 2, … to come
        risk = RISK / len(WINDOWS) * 6 / np.pi**2 / np.maximum(number, 1) ** 2 / COORDINATES
        rare = np.log(2 / risk)[:, None]
        bound = np.sqrt(2 * rare * np.maximum(noise, 0)) + CLIP * rare / (3 * width)
        for i in np.flatnonzero(ready & (np.abs(gap) > bound).any(1)):
            if self._is_relevant(c, old[i], gap[i], noise[i], np.maximum(of_old[i], LEAST)):
                return int(ends[i])
        return 0

    def _is_relevant(self, c: int, old: Array, gap: Array, noise: Array, unit: Array) -> bool:
        """Whether the class has moved at least half as far as the nearest other class is away; in its own deviations."""
        n, s = self.before.n[0] + self.now.n[0], self.before.s[0] + self.now.s[0]
        others = np.flatnonzero(n >= PLACED)
        others = others[others != c]
        if not len(others):
            return False
        away = ((s[others] / n[others, None] - old) ** 2 / unit).sum(1).min()
        return bool(((gap**2 - noise) / unit).sum() >= MOVED**2 * away)

    def _take(self, c: int, level: int, rows: Array, squares: Array, windows: Windows) -> None:
        """Add samples of a class; windows that are full join those before."""
        ends, n, s, q = windows
        start = 0
        if len(ends):
            self.before.n[level, c], self.before.s[level, c], self.before.q[level, c] = n[-1], s[-1], q[-1]
            for table in self.now.tables():
                table[level, c] = 0.0
            start = ends[-1]
        self.now.n[level, c] += len(rows) - start
        self.now.s[level, c] += total(rows[start:])
        self.now.q[level, c] += total(squares[start:])

    def _grow(self, classes: int) -> None:
        if classes > len(self.samples):  # by doubling, so that one class at a time is no copy each
            self._resize(list(range(len(self.samples))), max(classes, 2 * len(self.samples)))

    def _resize(self, to: list[int], classes: int) -> None:
        """Class c becomes class to[c] of `classes` ones."""
        target, old = np.array(to, np.int64), len(to)
        stay = np.flatnonzero(target >= 0)
        self.before, self.now = self.before.regroup(to, classes), self.now.regroup(to, classes)
        samples, tests, aged = self.samples[:old], self.tests[:old], self.aged[:old]
        self.samples, self.tests = np.zeros(classes, np.int64), np.zeros(classes, np.int64)
        self.aged = np.zeros(classes, bool)
        np.add.at(self.samples, target[stay], samples[stay])
        np.add.at(self.tests, target[stay], tests[stay])
        self.aged[target[stay][aged[stay]]] = True

    # --- as a part of a model

    def copy(self) -> Self:
        made = copy.copy(self)
        made.mean, made.squares = self.mean.copy(), self.squares.copy()
        made.before, made.now = self.before.copy(), self.now.copy()
        made.samples, made.tests, made.aged = self.samples.copy(), self.tests.copy(), self.aged.copy()
        return made

    def recode(self, a: Tensor, b: Tensor) -> None:
        """A new column changes every sample: what is compared begins anew, or the column itself would look like drift."""
        wide = len(b)
        self.shape, self._map = (wide,), None
        self.count, self.mean, self.squares = 0, np.zeros(wide), np.zeros(wide)
        self.before, self.now = Sums(len(self.samples)), Sums(len(self.samples))

    def regroup(self, to: list[int]) -> None:
        """Classes that become one have the samples of both before them, and their windows begin anew."""
        to = to + [-1] * (len(self.samples) - len(to))  # room that no class has taken yet
        classes = np.array(to, np.int64)
        members = np.bincount(classes[classes >= 0])
        self._resize(to, len(members))
        for table in self.now.tables():
            table[:, members > 1] = 0.0
        events = self.events[classes[self.events[:, 1]] >= 0]
        self.events = np.stack([events[:, 0], classes[events[:, 1]], events[:, 2]], 1)

    def forget(self, x: Tensor, y: Tensor) -> Tensor:
        """Samples that are taken back were watched all the same: nothing changes."""
        return torch.zeros(len(y), dtype=torch.bool)

    def merge(self, other: Self, classes: Tensor) -> None:
        """Each goes on watching its own stream; a class that aged there has aged."""
        self._grow(int(classes.max()) + 1 if len(classes) else 0)
        theirs = other.aged[: len(classes)]
        self.aged[classes.numpy()[: len(theirs)][theirs]] = True

    def state(self) -> dict[str, Tensor]:
        found = {
            "units.count": np.array([self.count, self.seen]),
            "units.mean": self.mean,
            "units.squares": self.squares,
            "samples": self.samples,
            "tests": self.tests,
            "aged": self.aged,
            "events": self.events,
        }
        for name, sums in (("before", self.before), ("now", self.now)):
            found |= {f"{name}.{key}": table for key, table in zip("nsq", sums.tables(), strict=True)}
        return {name: torch.from_numpy(np.ascontiguousarray(table)) for name, table in found.items()}

    def restore(self, state: dict[str, Tensor], classes: int) -> None:
        c, d, w, k = len(state["samples"]), len(self.mean), len(WINDOWS), COORDINATES
        shapes: dict[str, tuple[int, ...]] = {"units.count": (2,), "units.mean": (d,), "units.squares": (d,)}
        shapes |= {"samples": (c,), "tests": (c,), "aged": (c,), "events": (len(state["events"]), 3)}
        for name in ("before", "now"):
            shapes |= {f"{name}.n": (w, c), f"{name}.s": (w, c, k), f"{name}.q": (w, c, k)}
        fresh = self.state()
        if state.keys() != shapes.keys() or any(
            tuple(state[name].shape) != shape or state[name].dtype != fresh[name].dtype
            for name, shape in shapes.items()
        ):
            raise ValueError("its detector of drift does not match")
        events, counters = state["events"], [state[name] for name in ("samples", "tests", "events", "units.count")]
        fine = all(bool(torch.isfinite(tensor).all()) for tensor in state.values())
        fine &= all(bool((tensor >= 0).all()) for tensor in counters) and bool((events[:, 1] < classes).all())
        fine &= all(bool((tensor < COUNTS).all()) for tensor in counters) and int(state["units.count"][0]) <= UNITS
        fine &= bool((state["units.mean"].abs() <= FLOAT32).all() & (state["units.squares"] >= 0).all())
        fine &= bool((state["units.squares"] <= UNITS * (4 * FLOAT32**2)).all())
        for name in ("before", "now"):  # sums of values that are at most CLIP, or of d of them over √(their number)
            n, most = state[f"{name}.n"], CLIP * np.sqrt(d)
            fine &= bool(((n >= 0) & (n < COUNTS)).all())
            fine &= bool((state[f"{name}.s"].abs() <= 1.001 * most * n[..., None] + 1e-9).all())
            fine &= bool(
                ((state[f"{name}.q"] >= 0) & (state[f"{name}.q"] <= 1.001 * most**2 * n[..., None] + 1e-9)).all()
            )
        if not fine or bool((state["now.n"] >= torch.tensor(WINDOWS)[:, None]).any()):
            raise ValueError("its detector of drift is out of range")
        table = {name: np.array(tensor.cpu().numpy()) for name, tensor in state.items()}
        self.count, self.seen = table["units.count"].tolist()
        self.mean, self.squares = table["units.mean"], table["units.squares"]
        self.samples, self.tests, self.aged = table["samples"], table["tests"], table["aged"]
        self.events, self._map = table["events"], None
        for name, sums in (("before", self.before), ("now", self.now)):
            sums.n, sums.s, sums.q = (table[f"{name}.{key}"] for key in "nsq")
        self._grow(classes)


def sentence(drifts: list[Drift], half_life: float | str | None) -> str:
    """What a user is told of all that one call found."""
    named = [f"{drift.classes[0]!r} (after {drift.samples:,} samples)" for drift in drifts[:5]]
    named += [f"{len(drifts) - 5} more"] * (len(drifts) > 5)
    if half_life is None:
        advice = "a model with half_life='auto' follows such a change"
    elif half_life == "auto":
        advice = "what was learned of them before counts little from now on"
    else:
        advice = "older samples fade with its half_life"
    return f"{WORD}the samples of {', '.join(named)} are no longer what they were; {advice}."
