"""Times taken in turn, so that a busy machine slows all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np


def interleaved(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each work in each round; every round begins with another one. One round more, the first, warms up."""
    names = list(works)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            works[name]()
            if number:
                taken[name].append(time.perf_counter() - start)
    return taken


def ratio(above: list[float], below: list[float]) -> tuple[float, float, float]:
    """Median and quartiles of the ratios round by round: (median, first, third)."""
    low, middle, high = np.percentile([a / b for a, b in zip(above, below, strict=True)], [25, 50, 75])
    return float(middle), float(low), float(high)


def median(values: list[float]) -> float:
    return float(np.median(values))
