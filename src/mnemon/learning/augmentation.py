"""Images shifted and mirrored at random, by numbers drawn ahead on the host."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon import rng

SHIFT = 4  # pixels, at most
NUMBERS = 3  # in [0, 1) for each image: down, right, mirrored

SMALL = 16  # pixels a side: below it a shift may take half of the image away


def notice(shape: tuple[int, ...]) -> str:
    """Say what a user may not expect of augmented images [c, h, w]; "": nothing."""
    if len(shape) != 3 or min(shape[1:]) >= SMALL:
        return ""
    size = "×".join(map(str, shape[1:]))
    return f"augment shifts images by up to {SHIFT} pixels and mirrors them, whatever their size; these have {size} pixels."


def plan(seed: int, purpose: str, start: int, steps: int, images: int) -> NDArray[np.float64]:
    """The numbers for `images` images at each of some steps [steps, images, 3]; `start` images had theirs before."""
    u = rng.uniform(seed, purpose, start * NUMBERS, steps * images * NUMBERS)
    return u.reshape(steps, images, NUMBERS)


def repeated_border(x: Tensor, u: Tensor) -> Tensor:
    """Images [n, c, h, w] shifted by up to SHIFT pixels, the border repeated, half of them mirrored; u [n, 3] in [0, 1)."""
    i, j = _places(x, u)
    return _taken(x, i, j)


def zero_border(x: Tensor, u: Tensor) -> Tensor:
    """The same with zeros beyond the border: in the space of network inputs, the mean."""
    i, j = _places(x, u)
    inside = ((i >= 0) & (i < x.shape[2]))[:, :, None] & ((j >= 0) & (j < x.shape[3]))[:, None, :]  # [n, h, w]
    return torch.where(inside[:, None], _taken(x, i, j), 0.0)


def _places(x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """The row [n, h] and column [n, w] each pixel comes from, which may lie outside."""
    height, width = x.shape[2:]
    down, right = ((u[:, :2] * (2 * SHIFT + 1)).long() - SHIFT).unbind(1)
    i = torch.arange(height, device=x.device) + down[:, None]
    j = torch.arange(width, device=x.device) + right[:, None]
    return i, torch.where(u[:, 2:] < 0.5, j.flip(1), j)


def _taken(x: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """The pixels at these places, the nearest ones for those outside."""
    n, c, h, w = x.shape
    x = x.gather(2, i.clamp(0, h - 1)[:, None, :, None].expand(n, c, h, w))
    return x.gather(3, j.clamp(0, w - 1)[:, None, None, :].expand(n, c, h, w))
