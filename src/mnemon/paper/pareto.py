"""The Pareto front: what no other is as cheap as and better than, or as good as and cheaper than."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Trade(NamedTuple):
    """What something costs, and how good it is."""

    cost: float
    value: float


def front(every: Sequence[Trade]) -> list[bool]:
    """Whether each is on the front. Two that are equal are both on it, or both not."""
    return [not any(_beats(other, one) for other in every) for one in every]


def _beats(one: Trade, other: Trade) -> bool:
    return one != other and one.cost <= other.cost and one.value >= other.value
