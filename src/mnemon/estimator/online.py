"""A learner for streams that were not prepared: it scales features as they come and takes batches of one sample."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from mnemon.learning.learner import Inputs, Learner, Parameters
from mnemon.learning.method import Batch, Draws, StepResult
from mnemon.learning.network import Output

CLIP = 5.0  # standard deviations; a feature that was constant so far may jump by any number of them


class Scaling:
    """Running mean and variance of each feature (vectors) or channel (images), over all samples so far.

    The memory keeps raw samples, so replayed ones are always scaled as new ones are.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.squares = torch.zeros(width, dtype=torch.float64, device=device)  # sum of squared distances from the mean

    def update(self, x: Tensor) -> None:
        """Take in a batch [n, width, …]; Chan's formula joins its moments with those so far."""
        values = x.movedim(1, -1).reshape(-1, len(self.mean)).double()
        count = self.count + len(values)
        mean = values.mean(0)
        away = mean - self.mean
        self.squares += (values - mean).square().sum(0) + away.square() * self.count * len(values) / count
        self.mean += away * len(values) / count
        self.count.copy_(count)

    def __call__(self, x: Tensor) -> Tensor:
        std = (self.squares / self.count.clamp(min=1)).sqrt()
        # What varies by no more than float32 can hold is constant: its mean is taken off, its noise not blown up.
        std = torch.where(std > 1e-7 * self.mean.abs(), std, 1.0)
        wide = (-1, *[1] * (x.ndim - 2))  # one number a channel, for all its pixels
        return ((x.double() - self.mean.reshape(wide)) / std.reshape(wide)).clamp(-CLIP, CLIP)

    def state(self) -> dict[str, Tensor]:
        return {"scaling.count": self.count, "scaling.mean": self.mean, "scaling.squares": self.squares}


class OnlineLearner(Learner):
    """`scaled`: samples are scaled by what was seen so far instead of by the fixed map of `inputs`."""

    def __init__(self, *args: Any, scaled: bool, **named: Any) -> None:
        super().__init__(*args, **named)
        inputs: Inputs = self.inputs
        self.scaling = Scaling(inputs.shape[0], self.device) if scaled else None
        body = self.net.backbone
        self._fixed_body = not any(p.requires_grad for p in body.parameters())
        self._norms = [] if self._fixed_body else [m for m in self.net.modules() if isinstance(m, _BatchNorm)]

    def step(self, x: Tensor, y: Tensor, draws_: Draws) -> Tensor:
        if self.scaling is not None:
            self.scaling.update(x)
        if self._fixed_body:  # a network that is not trained keeps its BatchNorm statistics too
            self.net.backbone.eval()
        return super().step(x, y, draws_)

    def normalise(self, x: Tensor) -> Tensor:
        return super().normalise(x) if self.scaling is None else self.scaling(x).to(self.dtype)

    def over_all(self) -> tuple[Tensor, Tensor] | None:
        """Mean and variance of each feature so far, where they are scaled."""
        if self.scaling is None:
            return None
        return self.scaling.mean, self.scaling.squares / self.scaling.count.clamp(min=1)

    def state(self) -> dict[str, Tensor]:
        return super().state() | (self.scaling.state() if self.scaling is not None else {})

    def loss_and_gradient(self, batch: Batch, new: int) -> StepResult:
        with self._alone(batch):
            return super().loss_and_gradient(batch, new)

    def forward_frozen(self, batch: Batch, parameters: Parameters | None = None, *, moving: bool = False) -> Output:
        with self._alone(batch):
            return super().forward_frozen(batch, parameters, moving=moving)

    @contextlib.contextmanager
    def _alone(self, batch: Batch) -> Iterator[None]:
        """A single sample has no statistics of its own: for it BatchNorm takes the running ones."""
        norms = self._norms if len(batch) == 1 else []
        for norm in norms:
            norm.eval()
        try:
            yield
        finally:
            for norm in norms:
                norm.train()
