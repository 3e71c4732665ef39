"""No network: the samples are features already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from mnemon.learning.backbone import Architecture


@dataclass(frozen=True)
class Identity(Architecture):
    """The samples as vectors."""

    name: ClassVar[str] = "identity"
    doc: ClassVar[str] = "no network: the samples are features already"

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        return nn.Flatten()
