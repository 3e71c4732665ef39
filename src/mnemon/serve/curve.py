"""The learning curve of a served model: how many samples were predicted right before they were learned."""

from __future__ import annotations

import time

MOST = 1000  # points; two neighbours become one when there are more
SHARE = 0.1  # of the time may be spent on predicting what will be learned


class Curve:
    """Points [samples learned, predicted, right]; how a chunk would have been predicted with what was published then."""

    def __init__(self, points: list[list[int]]) -> None:
        self.points = points
        self._next = 0.0

    def has_time(self) -> bool:
        return time.monotonic() >= self._next

    def add(self, learned: int, predicted: int, right: int, seconds: float) -> None:
        points = [*self.points, [learned, predicted, right]]
        if len(points) > MOST:
            pairs = zip(points[::2], points[1::2], strict=False)
            points = [[b[0], a[1] + b[1], a[2] + b[2]] for a, b in pairs] + points[len(points) // 2 * 2 :]
        self.points = points  # whole, for those who read it meanwhile
        self._next = time.monotonic() + seconds * (1 / SHARE - 1)

    def accuracy(self, last: int | None = None) -> float | None:
        """The share that was right, of all or of about the last so many; None before anything was predicted."""
        predicted = right = 0
        for _, asked, hits in reversed(self.points):
            predicted, right = predicted + asked, right + hits
            if last is not None and predicted >= last:
                break
        return right / predicted if predicted else None
