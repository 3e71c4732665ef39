"""The paper's reduced ResNet-18."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.errors import MnemonError
from mnemon.learning.backbone import Architecture
from mnemon.learning.options import option


@dataclass(frozen=True)
class ResNet18(Architecture):
    """For images of at least 25×25 pixels."""

    name: ClassVar[str] = "resnet18"
    doc: ClassVar[str] = "the paper's reduced ResNet-18"
    trained: ClassVar[bool] = True
    nf: int = option(20, "channels of the first stage", least=1, most=512)

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        if len(shape) != 3:
            raise MnemonError(f"resnet18 needs images (channels, height, width), not samples of shape {shape}.")
        return ReducedResNet18(*shape, nf=self.nf)


class BatchNorm(nn.BatchNorm2d):
    """Without the count of batches, which nothing here reads and which costs a kernel in every layer."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.num_batches_tracked = None


class BasicBlock(nn.Module):
    """conv-BN-ReLU-conv-BN plus the shortcut, then ReLU."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = BatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = BatchNorm(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), BatchNorm(width))

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class ReducedResNet18(nn.Module):
    """ResNet-18 with 20 instead of 64 channels, a 3×3 stem and no max-pooling: d = 160 (32×32) or 640 (84×84).

    The features are averages of ReLU outputs, hence not negative, and all similarities lie in [0, 1].
    """

    def __init__(self, channels: int, height: int, width: int, nf: int = 20) -> None:
        super().__init__()
        if min(height, width) < 25:
            raise MnemonError(
                f"the reduced ResNet-18 needs images of at least 25×25 pixels, not {height}×{width}; use mlp."
            )
        self.stem = nn.Sequential(nn.Conv2d(channels, nf, 3, 1, 1, bias=False), BatchNorm(nf), nn.ReLU())
        blocks, inputs = [], nf
        for stage, stride in enumerate((1, 2, 2, 2)):
            out = nf * 2**stage
            blocks += [BasicBlock(inputs, out, stride), BasicBlock(out, out, 1)]
            inputs = out
        self.blocks = nn.Sequential(*blocks)
        # Average pooling with kernel 4 on the map of ⌈side/8⌉, as in the paper; up to 4 × 4 cells for large images.
        cells = [min(math.ceil(side / 8) // 4, 4) for side in (height, width)]
        exact = all(math.ceil(side / 8) // 4 <= 4 for side in (height, width))
        self.pool = nn.AvgPool2d(4) if exact else nn.AdaptiveAvgPool2d((cells[0], cells[1]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.pool(self.blocks(self.stem(x))), 1)
