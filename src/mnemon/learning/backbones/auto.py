"""The backbone for samples of which only the shape is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from mnemon.learning.backbone import Architecture
from mnemon.learning.backbones.mlp import Perceptron
from mnemon.learning.backbones.resnet18 import ResNet18


@dataclass(frozen=True)
class Auto(Architecture):
    """The ResNet where its pooling fits, else the MLP."""

    name: ClassVar[str] = "auto"
    doc: ClassVar[str] = "resnet18 for images of at least 25×25 pixels, else mlp"
    trained: ClassVar[bool] = True

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        large = len(shape) == 3 and min(shape[1:]) >= 25
        return (ResNet18() if large else Perceptron()).build(shape)
