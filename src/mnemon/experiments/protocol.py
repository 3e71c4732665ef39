"""The paper's protocol by stream name: which samples train, validate and test, in which order, with which memory.

A stream is named KIND-DATASET[-TASKS]: split-mnist, split-cifar100-20, smooth-cifar10, split-birds-4 … A Smooth stream
may name its spread instead, a decimal number: smooth-cifar10-0.25 (σ of a class in units of n0; 0.5 is the paper's).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon import data, rng, streams
from mnemon.errors import MnemonError, unknown

SPREAD = 0.5  # of a Smooth stream: σ / n0, as the paper's class counts show (streams/smooth.py)


class Rules(NamedTuple):
    """What the paper fixes for a dataset (METHODS: Table 5 and 6 of the paper)."""

    tasks: int = 0  # default number of Split tasks; 0: two classes each, ten tasks from a hundred classes on
    train: int = 0  # training samples per class drawn for each run; 0: all that do not validate
    valid: float = 0.05  # share of the training samples that validate (their number per class, where `train` is set)
    smooth: int = 0  # Smooth: mean number of samples of one class, n0; 0: 5/6 of the smallest class
    memory: int = 1000
    backbone: str = "auto"


RULES = {
    "digits": Rules(tasks=5, valid=0.125, memory=200, backbone="mlp"),
    "mnist": Rules(tasks=5, train=500, valid=1000, memory=500, backbone="mlp"),
    "cifar10": Rules(tasks=5, smooth=500),
    "cifar100": Rules(tasks=10, smooth=400),
    "mini_imagenet": Rules(tasks=10, smooth=400),
}

# The paper's streams, and the demo's; `parse` takes any dataset and number of tasks.
NAMES = (
    "split-digits",
    "split-mnist",
    "split-cifar10",
    "split-cifar100-10",
    "split-cifar100-20",
    "split-mini_imagenet-10",
    "split-mini_imagenet-20",
    "smooth-digits",
    "smooth-mnist",
    "smooth-cifar10",
    "smooth-cifar100",
    "smooth-mini_imagenet",
)


@dataclass(frozen=True)
class StreamName:
    """A stream's name, taken apart."""

    kind: str
    dataset: str
    tasks: int  # 0: the dataset's default
    spread: float = SPREAD  # of a Smooth stream

    @property
    def rules(self) -> Rules:
        return RULES.get(self.dataset, Rules())

    def __str__(self) -> str:
        """The one name of a stream that can be written in several ways (split-digits-5 is split-digits)."""
        name, tasks = f"{self.kind}-{self.dataset}", self.tasks or self.rules.tasks
        if self.spread != SPREAD:
            return f"{name}-{self.spread}"
        if self.kind == "smooth" or not tasks or (name in NAMES and tasks == self.rules.tasks):
            return name
        return f"{name}-{tasks}"

    def number_of_tasks(self, classes: int) -> int:
        """The tasks of a Split stream over that many classes."""
        return self.tasks or self.rules.tasks or (10 if classes >= 100 else max(1, classes // 2))

    def describe(self) -> str:
        """Say in a few words what comes in which order."""
        if self.kind == "smooth":
            return "classes come and go gradually; no tasks"
        tasks = self.tasks or self.rules.tasks
        return f"{tasks or 'several'} tasks of disjoint classes, in turn"


def parse(name: str) -> StreamName:
    """Take a stream's name apart, or suggest the nearest one."""
    spread = re.fullmatch(r"(smooth-[a-z0-9_]+)-([0-9]{1,3}\.[0-9]{1,4})", name)
    match = re.fullmatch(r"(split|smooth)-([a-z0-9_]+)(?:-([1-9][0-9]{0,5}))?", spread[1] if spread else name)
    if not match or match[2] not in data.names():
        more = [f"{kind}-{dataset}" for kind in ("split", "smooth") for dataset in data.names()]
        raise unknown("stream", name, {*NAMES, *more})
    if match[1] == "smooth" and match[3]:
        raise MnemonError(f"a Smooth stream has no tasks: use smooth-{match[2]}.")
    if spread and not float(spread[2]) > 0:
        raise MnemonError(f"the spread of a Smooth stream is above 0, not {spread[2]}.")
    return StreamName(match[1], match[2], int(match[3] or 0), float(spread[2]) if spread else SPREAD)


class Pools(NamedTuple):
    """Indices into the training samples."""

    train: NDArray[np.int64]
    valid: NDArray[np.int64]


def pools(labels: NDArray[np.int64], rules: Rules, seed: int) -> Pools:
    """Deal each class's samples to training and validation at random; both rising, so order comes from the stream alone."""
    shuffled = rng.permutation(seed, "pool", 0, len(labels))
    train, valid = [], []
    for c in np.unique(labels):
        mine = shuffled[labels[shuffled] == c]
        if rules.train:
            n_valid, n_train = int(rules.valid), rules.train
        else:
            n_valid = max(1, round(len(mine) * rules.valid))
            n_train = len(mine) - n_valid
        if len(mine) < n_valid + max(1, n_train):
            raise MnemonError(f"class {c} has {len(mine)} training samples, too few to train and to validate.")
        valid.append(mine[:n_valid])
        train.append(mine[n_valid : n_valid + n_train])
    return Pools(np.sort(np.concatenate(train)), np.sort(np.concatenate(valid)))


def make(name: StreamName, labels: NDArray[np.int64], seed: int, order: str) -> streams.Stream:
    """The stream over a training pool with these labels."""
    classes, counts = np.unique(labels, return_counts=True)
    if name.kind == "smooth":
        if order != "natural":
            raise MnemonError("a Smooth stream has its classes in natural order.")
        n0 = name.rules.smooth or int(counts.min()) * 5 // 6
        return streams.smooth(labels, length=n0 * len(classes), seed=seed, spread=name.spread)
    return streams.split(labels, tasks=name.number_of_tasks(len(classes)), seed=seed, order=order)


def uneven_tasks(stream: str) -> str | None:
    """Say how many classes each task of a Split stream has, where they differ: split-mnist-3 has tasks of 4, 3 and 3."""
    name = parse(stream)
    classes = next(info.classes for info in data.listing() if info.name == name.dataset)
    tasks = name.number_of_tasks(classes)
    if name.kind != "split" or tasks > classes or classes % tasks == 0:
        return None
    *sizes, last = map(len, np.array_split(range(classes), tasks))
    return f"{name}: tasks of {', '.join(map(str, sizes))} and {last} classes"
