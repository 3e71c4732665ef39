"""Features without training: patches of an image compared with a fixed dictionary of patches.

For an image with pixels 0 … 255, each P × P patch p at stride s, and the dictionary of `learning/patches.py`:

    a_k    = kernel_k · p / √(var p + 10) − offset_k
    r_k    = max(a_k − α, 0), max(−a_k − α, 0)      two-sided soft threshold
    f      = mean of r over each of Q × Q parts of the image, to a power; D = 2·K·Q²

All of it is a convolution, two poolings and a threshold.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from mnemon.errors import MnemonError
from mnemon.learning import patches
from mnemon.learning.backbone import Architecture
from mnemon.learning.options import option
from mnemon.runtime.precision import full_float32

WHITE = 255.0  # the value of a white pixel inside


@dataclass(frozen=True)
class Patches(Architecture):
    """For images; nothing is trained, the dictionary is fitted to the first images of the stream."""

    name: ClassVar[str] = "patches"
    doc: ClassVar[str] = "untrained: patches compared with those of the first images"
    fitted: ClassVar[bool] = True

    filters: int = option(256, "filters K; there are 2·K·Q² features", least=1, most=8192)
    side: int = option(6, "side P of a patch, in pixels", least=2, most=64)
    stride: int = option(1, "pixels from a patch to the next", least=1, most=64)
    quadrants: int = option(2, "parts Q the image has along each side, for averages", least=1, most=16)
    threshold: float = option(0.25, "soft threshold α", least=0)
    power: float = option(1.0, "power of the averages; 0.5 is the square root", above=0, most=1)
    largest: int = option(48, "images are halved until their longer side is at most this", least=2)
    source: str = option("images", "where filters come from", choices=("images", "noise"))
    images: int = option(10, "first images the dictionary is made of", least=1, most=100_000)
    brightest: float | str = option("auto", "value of white; auto: 255 of bytes, 1 of floats", above=0, words=("auto",))

    def build(self, shape: tuple[int, ...]) -> nn.Module:
        if len(shape) != 3:
            raise MnemonError(f"patches need images (channels, height, width), not samples of shape {shape}.")
        return PatchFeatures(self, shape)


class PatchFeatures(nn.Module):
    """Images [n, channels, height, width] as they came → features [n, 2·K·Q²]; buffers have their sizes before `fit`."""

    kernel: Tensor  # [K, channels, P, P]
    offset: Tensor  # [K]

    def __init__(self, given: Patches, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.given = given
        channels, *sides = shape
        height, width = (self._halved(side, max(sides)) for side in sides)
        places = [(side - given.side) // given.stride + 1 for side in (height, width)]  # of patches
        if min(height, width) < given.side:
            raise MnemonError(
                f"patches of {given.side}×{given.side} pixels do not fit into images of {height}×{width}."
            )
        if min(places) < given.quadrants:
            raise MnemonError(
                f"images of {height}×{width} pixels have {places[0]}×{places[1]} patches of {given.side}×{given.side}, "
                f"too few for {given.quadrants}×{given.quadrants} parts."
            )
        self.responses = given.filters * places[0] * places[1]  # a_k of an image
        self.register_buffer("kernel", torch.zeros(given.filters, channels, given.side, given.side))
        self.register_buffer("offset", torch.zeros(given.filters))

    def _halved(self, side: int, longer: int) -> int:
        while longer > self.given.largest:
            side, longer = side // 2, longer // 2
        return side

    @property
    def waits_for(self) -> int:
        """How many images `fit` needs."""
        return self.given.images if self.given.source == "images" else 0

    def fit(self, images: Tensor, seed: int) -> None:
        """Make the dictionary from images as they came: a function of them and the seed."""
        size = {"filters": self.given.filters, "side": self.given.side, "seed": seed}
        if self.given.source == "images":
            made = patches.from_images(self._pixels(images.cpu(), torch.float64), **size)
        else:
            made = patches.from_noise(self.kernel.shape[1], **size)
        self.kernel.copy_(made.kernel)
        self.offset.copy_(made.offset)

    def forward(self, x: Tensor) -> Tensor:
        given = self.given
        with full_float32():
            # Pixels are centred, so that the variance is no difference of large numbers.
            x = self._pixels(x, self.kernel.dtype) - WHITE / 2
            # Of each patch [n, 1, h, w].
            mean = functional.avg_pool2d(x.mean(1, keepdim=True), given.side, given.stride)
            square = functional.avg_pool2d(x.square().mean(1, keepdim=True), given.side, given.stride)
            scale = (square - mean.square()).clamp(min=0.0).add(patches.NOISE).rsqrt()
            a = functional.conv2d(x, self.kernel, stride=given.stride)  # [n, K, h, w]
            a = a.mul_(scale).sub_(self.offset[:, None, None])
            sides = [(a - given.threshold).clamp_(min=0.0), a.add_(given.threshold).clamp_(max=0.0).neg_()]
            f = torch.cat([functional.adaptive_avg_pool2d(r, given.quadrants).flatten(1) for r in sides], 1)
            return f if given.power == 1.0 else f.pow(given.power)

    def _pixels(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Scaled to 0 … 255, and halved while they are too large."""
        given = self.given.brightest
        brightest = given if isinstance(given, float) else WHITE if x.dtype == torch.uint8 else 1.0
        x = x.to(dtype) * (WHITE / brightest)
        while max(x.shape[2:]) > self.given.largest:
            x = functional.avg_pool2d(x, 2)
        return x

    def digest(self) -> str:
        """Equal for equal dictionaries: statistics of features may be merged only where it is."""
        numbers = torch.cat([self.kernel.flatten(), self.offset]).cpu().double().numpy()
        of = self.given
        shape = (*self.kernel.shape, of.stride, of.quadrants, of.threshold, of.power, of.largest, of.brightest)
        return hashlib.sha256(f"{shape}".encode() + numbers.tobytes()).hexdigest()
