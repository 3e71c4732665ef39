"""What a model keeps beside its learner: it is copied, saved, relabelled and taken back with it."""

from __future__ import annotations

from typing import Protocol, Self

from torch import Tensor


class Part(Protocol):
    """One such thing. A chunk is learned with a copy at hand, so that one that fails leaves all parts as they were."""

    def copy(self) -> Self:
        """An independent one; cheap, since every chunk makes one."""

    def state(self) -> dict[str, Tensor]:
        """All of it, as tensors; saved under `part.NAME.`."""

    def restore(self, state: dict[str, Tensor], classes: int) -> None:
        """Be what was saved, of a model with this many classes. A ValueError refuses what `state` cannot have returned."""

    def recode(self, a: Tensor, b: Tensor) -> None:
        """Samples x [n, d] are written as x·Aᵀ + b from now on: the table has further columns. A [e, d] and b [e], float64."""

    def regroup(self, to: list[int]) -> None:
        """Class c is now class to[c]; −1: it was taken back. Several classes may have become one."""

    def forget(self, x: Tensor, y: Tensor) -> Tensor:
        """Take back samples x of classes y; True [n] for those that were kept here and never learned."""

    def merge(self, other: Self, classes: Tensor) -> None:
        """Take in what another model's part holds; classes[c] is this model's index of its class c."""
