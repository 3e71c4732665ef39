"""Smooth (the paper's task-free stream): each class comes and goes as a Gaussian over time.

At time t = 1 … n, class c = 1 … C has the weight exp(−(t − μ_c)² / 2σ²) with μ_c = (2c − 1)·n0/2 and n0 = n/C; the class
of sample t is drawn from the normalised weights, and one unused image of that class is emitted.

The paper's text writes N(t | μ_c, n0/2) and its appendix N(t | μ_c, n0/c). We read n0/2 as the *standard deviation*:
of all readings only this one gives the smallest and largest class counts the paper prints (464…536 for CIFAR-10,
357…450 for CIFAR-100, 354…446 for miniImageNet, over 15 streams each). `spread` is σ in units of n0.
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

SPREAD = 0.5  # the paper's


def class_weights(classes: int, length: int, spread: float) -> NDArray[np.float64]:
    """[length, classes]: the normalised class probabilities p_c(t) at t = 1 … length."""
    return _softmax(_log_weights(classes, length, spread))


def _log_weights(classes: int, length: int, spread: float) -> NDArray[np.float64]:
    n0 = length / classes
    t = np.arange(1, length + 1)[:, None]
    mu = (2 * np.arange(1, classes + 1) - 1) * n0 / 2
    return np.asarray(-(((t - mu) / (spread * n0)) ** 2) / 2)


def _softmax(log_w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows to probabilities; the largest of a row is e^0, so a narrow spread cannot make them all vanish."""
    w = np.exp(log_w - log_w.max(1, keepdims=True))
    return np.asarray(w / w.sum(1, keepdims=True))


def smooth(labels: ArrayLike, *, length: int, seed: int, spread: float = SPREAD) -> Stream:
    """A stream of `length` samples; classes in sorted order, images of a class without replacement."""
    y = check_labels(labels)
    classes, y = np.unique(y, return_inverse=True)
    supply = np.bincount(y)
    if not len(classes) <= check_whole("length", length) <= len(y):
        raise MnemonError(
            f"a Smooth stream of {len(classes)} classes and {len(y)} samples has a length between these two, not {length}."
        )
    if not 1e-6 <= spread <= 1e6:
        raise MnemonError(f"the spread of a Smooth stream lies between 0.000001 and 1000000, not at {spread}.")

    log_w = _log_weights(len(classes), length, spread)
    u = rng.uniform(seed, "smooth class", 0, length)
    drawn = np.empty(length, np.int64)
    start = 0
    while start < length:  # more than one turn only when a class runs out of images
        cdf = np.cumsum(_softmax(log_w[start:]), axis=1)
        drawn[start:] = (u[start:, None] * cdf[:, -1:] >= cdf[:, :-1]).sum(1)
        used = np.cumsum(drawn[:, None] == np.arange(len(classes)), axis=0)  # [length, C]
        over = np.flatnonzero((used > supply).any(1))
        if len(over) == 0:
            break
        start = int(over[0])  # from here on the exhausted class has weight 0
        log_w[start:, drawn[start]] = -np.inf

    shuffled = rng.permutation(seed, "stream order", 0, len(y))
    indices = np.empty(length, np.int64)
    for c in range(len(classes)):
        when = np.flatnonzero(drawn == c)
        indices[when] = shuffled[y[shuffled] == c][: len(when)]
    return Stream(
        kind="smooth",
        indices=indices,
        boundaries=(length,),
        tasks=(tuple(classes.tolist()),),
        arrivals=digest(classes[drawn]),
    )


@dataclass(frozen=True)
class Smooth(Schedule):
    """The paper's stream, or one of another spread, a decimal number: smooth-cifar10-0.25."""

    kind: ClassVar[str] = "smooth"
    title: ClassVar[str] = "Smooth"
    usage: ClassVar[str] = "smooth-DATASET[-SPREAD]"
    has_tasks: ClassVar[bool] = False
    spread: float = SPREAD

    @classmethod
    def parse(cls, parameters: str) -> Self | None:
        if not parameters:
            return cls()
        if re.fullmatch(r"[1-9][0-9]{0,5}", parameters):
            raise MnemonError(
                f"a Smooth stream has no tasks: leave out the -{parameters}; a spread is written with a point, as "
                f"-{parameters}.0."
            )
        if not re.fullmatch(r"[0-9]{1,3}\.[0-9]{1,4}", parameters):
            return None
        if not float(parameters) > 0:
            raise MnemonError(f"the spread of a Smooth stream is above 0, not {parameters}.")
        return cls(float(parameters))

    def parameters(self, rules: Rules) -> str:
        return "" if self.spread == SPREAD else str(self.spread)

    def words(self) -> str:
        return "" if self.spread == SPREAD else f"spread {self.spread}"

    def describe(self, rules: Rules, classes: int) -> str:
        return "every class comes and goes as a Gaussian over time; no tasks"

    def make(self, labels: NDArray[np.int64], rules: Rules, seed: int, order: str) -> Stream:
        if order != "natural":
            raise MnemonError("a Smooth stream has its classes in natural order.")
        counts = np.unique(labels, return_counts=True)[1]
        n0 = rules.smooth or int(counts.min()) * 5 // 6
        return smooth(labels, length=n0 * len(counts), seed=seed, spread=self.spread)

    def probabilities(self, classes: int, length: int) -> NDArray[np.float64]:
        return class_weights(classes, length, self.spread)

    @property
    def deviation(self) -> str:
        return "" if self.spread == SPREAD else "another spread"
