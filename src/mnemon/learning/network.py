"""The trained network: a backbone, and on top of its features what the loss needs for each class."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon import draws

START_CAPACITY = 16  # class rows held ready; doubled when they run out, so shapes change only log2(classes) times


class Output(NamedTuple):
    """What one forward pass gives the loss and the classifier."""

    features: Tensor  # [n, d]
    logits: Tensor | None  # [n, capacity], where there is a softmax head
    proxies: Tensor | None  # [capacity, d], where there are proxies


class Network(nn.Module):
    """Row c of the head or the proxies depends on (seed, c) alone: no class count is known up front, none leaks in."""

    def __init__(self, backbone: nn.Module, dim: int, *, head: bool, proxies: bool, seed: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.dim = dim
        self.seed = seed
        self.capacity = 0
        self.head_weight = self.head_bias = self.proxies = None
        if head:
            self.head_weight = nn.Parameter(torch.empty(0, dim))  # [capacity, d]
            self.head_bias = nn.Parameter(torch.empty(0))
        if proxies:
            self.proxies = nn.Parameter(torch.empty(0, dim))
        self.grow(START_CAPACITY)

    def forward(self, x: Tensor) -> Output:
        f = self.backbone(x)
        logits = None if self.head_weight is None else F.linear(f, self.head_weight, self.head_bias)
        return Output(f, logits, self.proxies)

    def grow(self, capacity: int) -> None:
        """Append untouched class rows up to `capacity`; the rows in use stay as they are."""
        start, self.capacity = self.capacity, capacity
        for name, rows in (("head_weight", head_weight), ("head_bias", head_bias), ("proxies", proxy_rows)):
            old = getattr(self, name)
            if old is not None:
                new = rows(self.seed, start, capacity, self.dim).to(old)
                setattr(self, name, nn.Parameter(torch.cat([old.detach(), new])))


def head_weight(seed: int, start: int, stop: int, d: int) -> Tensor:
    """Rows start … stop−1 of a linear layer as PyTorch initialises it: uniform in ±1/√d."""
    return _uniform_rows(seed, start, stop, d)[:, :d]


def head_bias(seed: int, start: int, stop: int, d: int) -> Tensor:
    return _uniform_rows(seed, start, stop, d)[:, d]


def proxy_rows(seed: int, start: int, stop: int, d: int) -> Tensor:
    """p_c = g / ‖g‖ with g ~ N(0, I)."""
    g = draws.normal(seed, "proxies", start * d, (stop - start) * d).reshape(-1, d)
    return F.normalize(torch.from_numpy(g), dim=1)


def _uniform_rows(seed: int, start: int, stop: int, d: int) -> Tensor:
    u = draws.uniform(seed, "head", start * (d + 1), (stop - start) * (d + 1)).reshape(-1, d + 1)
    return torch.from_numpy((2 * u - 1) / math.sqrt(d))
