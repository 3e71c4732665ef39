"""Cases and verdicts.

In each case that a claim speaks of, a stream or a size, it holds (True), does not hold (False), or the 95 % interval of the
difference includes zero (None).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mnemon.experiments.stats import Estimate
from mnemon.paper.comparison import with_runs

CONFIRMED, SO_FAR, DEPENDS = "confirmed", "confirmed so far", "depends"
UNDECIDED, CONTRADICTED = "undecided", "contradicted"

# Points of forgetting: the smallest difference that the paper calls far lower (to GMED-MIR on Split CIFAR-10).
FAR = 4.5

Case = bool | None


class Finding(NamedTuple):
    verdict: str
    numbers: str


def verdict(cases: Sequence[Case], whole: bool = True) -> str:
    """`whole`: all methods that the claim speaks of were run."""
    if all(cases):
        return CONFIRMED if whole else SO_FAR
    return DEPENDS if any(cases) else CONTRADICTED if False in cases else UNDECIDED


def every(cases: Sequence[Case]) -> Case:
    """Of a case that is several comparisons: whether all of them hold."""
    return False if False in cases else None if None in cases else True


def above(difference: Estimate) -> Case:
    """Whether a difference is above zero."""
    return None if difference.sign == 0 else difference.sign > 0


def below(difference: Estimate) -> Case:
    return None if difference.sign == 0 else difference.sign < 0


def far_above(difference: Estimate) -> Case:
    """Whether a difference is above zero by at least FAR points."""
    return above(difference) and difference.mean >= FAR


def far_below(difference: Estimate) -> Case:
    return below(difference) and difference.mean <= -FAR


def not_above(difference: Estimate) -> Case:
    """Holds unless the interval says otherwise."""
    return difference.sign <= 0


def points(difference: Estimate) -> str:
    """A difference as claims write it."""
    return with_runs(difference, signed=True)
