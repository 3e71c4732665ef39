"""The paper's multi-layer perceptron."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.learning.backbone import Architecture
from mnemon.learning.options import option


@dataclass(frozen=True)
class Perceptron(Architecture):
    """For samples of any shape."""

    name: ClassVar[str] = "mlp"
    doc: ClassVar[str] = "the paper's MLP: two hidden layers of ReLU units"
    trained: ClassVar[bool] = True
    width: int = option(400, "units of each hidden layer", least=1, most=10_000)

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        return MLP(math.prod(shape), self.width)


class MLP(nn.Module):
    """Two hidden layers of 400 ReLU units; the features are the second one. 474,400 parameters for 784 inputs."""

    def __init__(self, inputs: int, width: int = 400) -> None:
        super().__init__()
        self.hidden1 = nn.Linear(inputs, width)
        self.hidden2 = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.hidden2(F.relu(self.hidden1(x.flatten(1)))))
