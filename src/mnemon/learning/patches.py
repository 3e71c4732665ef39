"""Features without training: normalised, whitened patches of an image compared with a fixed dictionary of patches.

After Coates, Ng & Lee (2011) and Thiry et al. (2021). For an image with pixels 0 … 255:

    p̂      = (p − mean p) / √(var p + 10)          each P × P patch p, at stride s
    a_k    = w_k · Z (p̂ − M)                        Z, M whiten (ZCA, ε = 0.1); w_k a unit vector of the dictionary
    r_k    = max(a_k − α, 0), max(−a_k − α, 0)      two-sided soft threshold
    f      = mean of r over each of Q × Q parts of the image; D = 2·K·Q²

w_k · Z is one convolution kernel, and the mean and variance of a patch are local averages: all of it is a convolution, two
poolings and a threshold. Whitening and dictionary come from the first images of the stream alone.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn
from torch.nn import functional

from mnemon import rng
from mnemon.errors import MnemonError

NOISE = 10.0  # added to a patch's variance: a flat patch stays small (pixels 0 … 255)
RIDGE = 0.1  # ε of the whitening
ENOUGH = 100_000  # patches the whitening is estimated from, at most


class Patches(nn.Module):
    """Images [n, channels, height, width] with pixels 0 … 255 → features [n, 2·K·Q²]; none of it is trained."""

    kernel: Tensor  # [K, channels, P, P]: w_k · Z
    offset: Tensor  # [K]: w_k · Z M

    def __init__(
        self, kernel: Tensor, offset: Tensor, *, stride: int = 1, quadrants: int = 2, threshold: float = 0.25
    ) -> None:
        super().__init__()
        self.register_buffer("kernel", kernel)
        self.register_buffer("offset", offset)
        self.stride, self.quadrants, self.threshold = stride, quadrants, threshold

    def forward(self, x: Tensor) -> Tensor:
        side = self.kernel.shape[2]
        # Local moments by pooling: the mean over channels of the means over P × P pixels. Pixels are centred first, so
        # that the variance is no difference of large numbers.
        x = x - 127.5
        mean = functional.avg_pool2d(x.mean(1, keepdim=True), side, self.stride)  # [n, 1, h, w]
        square = functional.avg_pool2d(x.square().mean(1, keepdim=True), side, self.stride)
        scale = (square - mean.square()).clamp(min=0.0).add(NOISE).rsqrt()
        a = functional.conv2d(x, self.kernel, stride=self.stride)  # [n, K, h, w]
        a = (a - mean * self.kernel.sum((1, 2, 3))[:, None, None]) * scale - self.offset[:, None, None]
        both = torch.cat([a, -a], 1).sub_(self.threshold).clamp_(min=0.0)
        return functional.adaptive_avg_pool2d(both, self.quadrants).flatten(1)

    def digest(self) -> str:
        """Equal for equal dictionaries: statistics of features may be merged only where it is."""
        numbers = torch.cat([self.kernel.flatten(), self.offset]).cpu().double().numpy()
        shape = (*self.kernel.shape, self.stride, self.quadrants, self.threshold)
        return hashlib.sha256(f"{shape}".encode() + numbers.tobytes()).hexdigest()


def fit(images: Tensor, *, filters: int, side: int, seed: int, **more: float) -> Patches:
    """Whitening and dictionary from images [n, channels, height, width], pixels 0 … 255; a function of them and the seed."""
    n, channels, height, width = images.shape
    if min(height, width) < side:
        raise MnemonError(f"patches of {side}×{side} pixels do not fit into images of {height}×{width}.")
    places = (height - side + 1, width - side + 1)
    total = n * places[0] * places[1]
    chosen = rng.uniform(seed, "patches", 0, min(total, ENOUGH) + filters)
    at = torch.from_numpy((chosen * total).astype("int64"))
    patches = _normalised(_cut(images.double(), at, side, places))  # [patches, channels·P·P]
    sample, words = patches[filters:], patches[:filters]
    centre = sample.mean(0)
    away = sample - centre
    values, vectors = torch.linalg.eigh(away.T @ away / len(away))
    whiten = vectors @ torch.diag((values.clamp(min=0.0) + RIDGE).rsqrt()) @ vectors.T  # Z, symmetric
    unit = functional.normalize((words - centre) @ whiten, dim=1)  # w_k
    kernel = (unit @ whiten).float()
    shape = (filters, channels, side, side)
    return Patches(kernel.reshape(shape), (kernel.double() @ centre).float(), **more)  # type: ignore[arg-type]


def _cut(images: Tensor, at: Tensor, side: int, places: tuple[int, int]) -> Tensor:
    """The patches with these numbers [m, channels·P·P]; numbers run over columns, rows, images."""
    image, row, column = at // (places[0] * places[1]), at // places[1] % places[0], at % places[1]
    steps = torch.arange(side)
    rows, columns = row[:, None, None] + steps[None, :, None], column[:, None, None] + steps[None, None, :]
    return images.permute(0, 2, 3, 1)[image[:, None, None], rows, columns].permute(0, 3, 1, 2).flatten(1)


def _normalised(patches: Tensor) -> Tensor:
    """p̂ of patches [m, channels·P·P]."""
    away = patches - patches.mean(1, keepdim=True)
    return away / (away.square().mean(1, keepdim=True) + NOISE).sqrt()
