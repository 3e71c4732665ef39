"""What must be known of a stream kind. Each one has a file in `kinds/`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mnemon.data import Rules
from mnemon.streams.stream import Stream


class Schedule(ABC):
    """A stream kind with its parameters: how the classes of a dataset arrive over time.

    A stream is named KIND-DATASET[-PARAMETERS]. Subclasses are frozen dataclasses whose fields are the parameters.
    """

    kind: ClassVar[str]  # lower-case letters, in stream names and records
    title: ClassVar[str]  # as people write it
    usage: ClassVar[str]  # how a stream of this kind is named: split-DATASET[-TASKS]
    shuffles_classes: ClassVar[bool] = False  # True: each seed deals them anew, so no plot over seeds can name them
    has_tasks: ClassVar[bool]  # if not, results are the final accuracy, and there is no forgetting

    @classmethod
    @abstractmethod
    def parse(cls, parameters: str) -> Self | None:
        """Read what follows the dataset in a stream's name, "" if nothing does. None: this kind has no such parameters."""

    @classmethod
    def listed(cls, rules: Rules) -> Sequence[Self]:
        """Those that `mnemon list streams` shows for a dataset."""
        return [cls()]

    def parameters(self, rules: Rules) -> str:
        """Return the canonical form of what follows the dataset in the name, "" at the defaults of the dataset."""
        return ""

    def words(self) -> str:
        """Return the parameters as they follow the title of a stream; "" at the defaults."""
        return ""

    @abstractmethod
    def describe(self, rules: Rules, classes: int) -> str:
        """Say in one line what the stream is."""

    def notice(self, rules: Rules, classes: int) -> str:
        """Say what a user may not expect of the stream; "": nothing."""
        return ""

    @abstractmethod
    def make(self, labels: NDArray[np.int64], rules: Rules, seed: int, order: str) -> Stream:
        """Make the stream over the training samples with these labels; `order` is that of the classes."""

    def probabilities(self, classes: int, length: int) -> NDArray[np.float64] | None:
        """Return the class probabilities over time, [length, classes]; None: constant within each task."""
        return None

    @property
    def deviation(self) -> str:
        """What it has that the streams of its kind do not for which recipes are kept; "": nothing."""
        return ""
