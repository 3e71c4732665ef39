"""Averaged weights: what a learner predicts with, while training goes on with the weights themselves.

A step of SGD on twenty samples is noisy, and a stream does not end when it happens to be good. The mean of the last iterates
costs one more copy of the network and is far better than any of them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

LONGEST = 500  # auto: steps the average looks back over at most …
RECENT = 3  # … and it is this part, a third, of those since a class last appeared


class Average:
    """θ̄ of all that training changes in a network: parameters, class rows, BatchNorm's running statistics.

    One vector holds them all, so that a step moves it in a few operations, whatever the network is made of.
    """

    def __init__(self, moving: Mapping[str, Tensor], device: torch.device, old: Average | None = None) -> None:
        """Begin with these tensors as they are; where `old` has a mean of them, with that (class rows that are new start as
        they are)."""
        self.shapes = {name: tensor.shape for name, tensor in moving.items()}
        self.flat = _flat(moving) if moving else torch.empty(0, device=device)  # [P]
        # auto: steps since a class appeared; else all steps
        self.age = torch.zeros((), dtype=torch.int64, device=device)
        if old is not None:
            self.age.copy_(old.age)
            mine = self.tensors()
            for name, mean in old.tensors().items():
                rows = mine[name] if mine[name].shape == mean.shape else mine[name][: len(mean)]  # a number has no rows
                rows.copy_(mean)

    def tensors(self) -> dict[str, Tensor]:
        """θ̄ by the names the network has (views)."""
        sizes = [shape.numel() for shape in self.shapes.values()]
        parts = torch.split(self.flat, sizes) if sizes else ()
        return {name: _unflat(part, shape) for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)}

    def update(self, moving: Mapping[str, Tensor], decay: Any, known: Tensor) -> None:
        """Take in θ after a step: θ̄ ← θ̄ + w (θ − θ̄). `known`: whether all classes of the batch came before.

        A constant decay d makes θ̄ the mean of the t iterates so far with weights 1, d, d² … from the last one back, so the
        random start has no part in it: w = (1 − d) / (1 − dᵗ). With `auto` the mean looks back over a third of the steps since
        a class last appeared, so that it follows at once where something new is learned.
        """
        self.age.add_(1)
        if isinstance(decay, str):
            self.age.mul_(known)
            weight = (RECENT / (self.age + 1 + RECENT)).clamp(min=1 / LONGEST)
        else:
            d = decay.double() if isinstance(decay, Tensor) else decay
            t = self.age.double()
            # The last iterate weighs most, hence at least 1/t; this holds where float32 cannot tell d from 1, too.
            weight = ((1 - d) / (1 - d**t).clamp(min=1e-300)).clamp(max=1.0).maximum(1 / t)
        if moving:
            with torch.no_grad():
                # `lerp_`, in place, has no rule for a stack of learners.
                self.flat.copy_(self.flat.lerp(_flat(moving), weight.to(self.flat.dtype)))

    def held_by(self, flat: Tensor, age: Tensor) -> Average:
        """The same with other tensors: those of a stack of learners."""
        made = copy.copy(self)
        made.flat, made.age = flat, age
        return made


def _flat(moving: Mapping[str, Tensor]) -> Tensor:
    """All of them in one vector. Kernels of convolutions with their channels last, as they lie in the memory of a stack or of
    a CPU: nothing is copied twice."""
    return torch.cat([(t.detach().movedim(1, -1) if t.ndim == 4 else t.detach()).reshape(-1) for t in moving.values()])


def _unflat(part: Tensor, shape: torch.Size) -> Tensor:
    if len(shape) != 4:
        return part.reshape(shape)
    out, channels, height, width = shape
    return part.reshape(out, height, width, channels).movedim(-1, 1)
