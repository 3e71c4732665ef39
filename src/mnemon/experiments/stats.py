"""Means over runs and their 95 % intervals: one type, one formatter, one paired difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mnemon.experiments.metrics import confidence_interval


class Estimate(NamedTuple):
    """A mean over n runs; `half` is the half-width of its 95 % interval (Student's t), None for a single run."""

    mean: float
    half: float | None
    n: int

    @property
    def sign(self) -> int:
        """Of a difference: 1 above zero, −1 below, 0 where the interval holds zero or a single run has none."""
        if self.half is None or abs(self.mean) <= self.half:
            return 0
        return 1 if self.mean > 0 else -1

    def text(self, digits: int = 2, *, signed: bool = False) -> str:
        """51.01 ± 0.83; with `signed` a plus sign before a positive mean."""
        half = "" if self.half is None else f" ± {fixed(self.half, digits)}"
        return fixed(self.mean, digits, signed=signed) + half

    def __str__(self) -> str:
        return self.text()


def estimate(values: Iterable[float | None]) -> Estimate | None:
    """Of the values that are defined; None where none is."""
    known = [float(value) for value in values if value is not None]
    if len(known) < 2:
        return Estimate(known[0], None, 1) if known else None
    return Estimate(*confidence_interval(known), len(known))


def paired_difference(mine: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """Mine minus theirs over the seeds that both have; None where they share none.

    Runs with the same seed see the same stream, so the variance due to the stream cancels.
    """
    return estimate(mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys()))


def fixed(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """51.01, −0.30; `signed` puts a plus before what is above zero as it is written."""
    written = f"{value:.{digits}f}"
    return ("+" if signed and float(written) > 0 else "") + minus(written)


def minus(written: str) -> str:
    """A true minus sign, as wide as a plus, and none before zero."""
    return written.replace("-", "−") if float(written) else written.lstrip("-")
