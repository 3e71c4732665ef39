"""The best that each class ever was in the exam: what the model forgot is that minus what it is now."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mnemon.learning.labels import Label
from mnemon.serve.published import Published

LEAST = 5  # samples of a class in an exam, for its result to be a best one: of fewer, chance makes too many


class BestResults:
    """By label, since a retraction may change the order of classes."""

    def __init__(self, labels: list[Label], table: list[list[int]]) -> None:
        """`table` is as `table` returns it: [asked, right] of each class."""
        found = zip(labels, table, strict=False)
        self._best = {_key(label): (asked, right) for label, (asked, right) in found if asked > 0}

    def note(self, published: Published) -> None:
        """Take in the results of what was published now."""
        if published.results is None:
            return
        best = dict(self._best)  # whole, for those who read it meanwhile
        for label, (asked, right) in zip(published.labels, published.results.tolist(), strict=True):
            before = best.get(_key(label))
            if asked >= LEAST and (before is None or right * before[0] > before[1] * asked):
                best[_key(label)] = (asked, right)
        self._best = best

    def of(self, label: Label, now: float) -> float:
        """The best share of a class that was right; `now` where that is better, or no exam was large enough."""
        asked, right = self._best.get(_key(label), (1, 0))
        return max(now, right / asked)

    def table(self, labels: list[Label]) -> NDArray[np.int64]:
        """[asked, right] of the best exam of each class [classes, 2]; zeros where there was none."""
        rows = [self._best.get(_key(label), (0, 0)) for label in labels]
        return np.array(rows, np.int64).reshape(-1, 2)


def _key(label: Label) -> tuple[type, Label]:
    return type(label), label  # True and 1 differ
