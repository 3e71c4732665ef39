"""The paper's protocol by stream name: which samples train, validate and test, in which order, with which memory.

A stream is named KIND-DATASET[-PARAMETERS]: split-mnist, split-cifar100-20, smooth-cifar10, smooth-cifar10-0.25 …
(`streams/kinds/` has the kinds, `data/datasets/` the datasets and what the paper fixes for each).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon import data, rng, streams
from mnemon.data import Rules
from mnemon.errors import MnemonError, unknown
from mnemon.streams.kinds import kinds
from mnemon.streams.schedule import Schedule


@dataclass(frozen=True)
class StreamName:
    """A stream's name, taken apart."""

    schedule: Schedule  # the kind with its parameters
    dataset: str

    @property
    def kind(self) -> str:
        return self.schedule.kind

    @property
    def rules(self) -> Rules:
        return data.rules(self.dataset)

    def __str__(self) -> str:
        """The one name of a stream that can be written in several ways (split-digits-5 is split-digits)."""
        parameters = self.schedule.parameters(self.rules)
        return f"{self.kind}-{self.dataset}" + (f"-{parameters}" if parameters else "")

    def describe(self) -> str:
        """Say in one line what the stream is."""
        return self.schedule.describe(self.rules, self._classes())

    def notice(self) -> str:
        """Say what a user may not expect of the stream; "": nothing."""
        said = self.schedule.notice(self.rules, self._classes())
        return f"{self}: {said}" if said else ""

    def memory_notice(self, rows: int) -> str:
        """Say that a memory of so many rows keeps every sample, so that nothing is measured of forgetting; "": it does not."""
        rules, info = self.rules, self._info()
        most = rules.train * info.classes if rules.train else info.train
        if rows < most or not most:
            return ""
        return (
            f"{self}: a memory of {rows} keeps every sample of the stream (at most {most}), so methods that replay can hardly "
            "forget; --memory-size makes it smaller."
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a sample of the dataset."""
        return self._info().shape

    def _classes(self) -> int:
        return self._info().classes

    def _info(self) -> data.Info:
        return next(info for info in data.listing() if info.name == self.dataset)


def parse(name: str) -> StreamName:
    """Take a stream's name apart, or suggest the nearest one."""
    match = re.fullmatch(r"([a-z]+)-([a-z0-9_]+)(?:-(.+))?", name)
    if match and match[1] in kinds() and match[2] in data.names():
        schedule = kinds()[match[1]].parse(match[3] or "")
        if schedule is not None:
            return StreamName(schedule, match[2])
    short = [f"{kind}-{dataset}" for kind in kinds() for dataset in data.names()]
    raise unknown("stream", name, {*map(str, listing()), *short})


def listing() -> list[StreamName]:
    """Every kind of stream on every dataset that has a definition."""
    return [
        StreamName(schedule, dataset.name)
        for kind in kinds().values()
        for dataset in data.definitions().values()
        for schedule in kind.listed(dataset.rules)
    ]


class Partition(NamedTuple):
    """Indices into the training samples."""

    train: NDArray[np.int64]
    valid: NDArray[np.int64]


def partition(labels: NDArray[np.int64], rules: Rules, seed: int) -> Partition:
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
    return Partition(np.sort(np.concatenate(train)), np.sort(np.concatenate(valid)))


def make(name: StreamName, labels: NDArray[np.int64], seed: int, order: str) -> streams.Stream:
    """The stream over a training pool with these labels."""
    return name.schedule.make(labels, name.rules, seed, order)
