"""A backbone by its name: it makes the feature extractor f for samples of a shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from mnemon.learning.named import Named


@dataclass(frozen=True)
class Architecture(Named):
    """One file in backbones/ each; options are fields."""

    trained: ClassVar[bool] = False  # True: it is nothing before it is trained by gradients
    fitted: ClassVar[bool] = False  # True: it is made from the first samples, once, and not trained

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        """Make a module that turns samples [n, *shape] into features [n, d]; torch's random numbers are seeded already."""
        raise TypeError(f"the backbone {self.name} does not say what it is.")
