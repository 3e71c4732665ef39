"""A dictionary of patches: the filters and the whitening that `backbones/patches.py` compares images with.

After Coates, Ng & Lee (2011) and Thiry et al. (2021). For an image with pixels 0 … 255:

    p̂      = (p − mean p) / √(var p + 10)          each P × P patch p
    a_k    = w_k · Z (p̂ − M)                        Z, M whiten (ZCA, ε = 0.1); w_k a unit vector

w_k is a whitened patch of the first images of the stream, or noise, which needs no image and is not whitened. Everything
is computed on the host in float64: a function of the images and the seed alone, the same on every device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from mnemon import rng

NOISE = 10.0  # added to a patch's variance: a flat patch stays small (pixels 0 … 255)
RIDGE = 0.1  # ε of the whitening
ENOUGH = 100_000  # patches the whitening is estimated from, at most


class Dictionary(NamedTuple):
    """a_k = kernel_k · p / √(var p + 10) − offset_k. The kernels sum to 0, so the mean of a patch needs no taking off."""

    kernel: Tensor  # [K, channels, P, P]: w_k · Z
    offset: Tensor  # [K]: w_k · Z M


def from_images(images: Tensor, *, filters: int, side: int, seed: int) -> Dictionary:
    """Whitening and filters from images [n, channels, height, width], pixels 0 … 255."""
    n, channels, height, width = images.shape
    places = (height - side + 1, width - side + 1)
    total = n * places[0] * places[1]
    chosen = rng.uniform(seed, "patches", 0, min(total, ENOUGH) + filters)
    at = torch.from_numpy((chosen * total).astype("int64"))
    patches = normalised(cut(images.cpu().double(), at, side, places))  # [patches, channels·P·P]
    sample, words = patches[filters:], patches[:filters]
    centre = sample.mean(0)
    away = sample - centre
    values, vectors = torch.linalg.eigh(away.T @ away / len(away))
    whiten = vectors @ torch.diag((values.clamp(min=0.0) + RIDGE).rsqrt()) @ vectors.T  # Z, symmetric
    unit = functional.normalize((words - centre) @ whiten, dim=1)  # w_k
    kernel = unit @ whiten
    return Dictionary(_centred(kernel).reshape(filters, channels, side, side), kernel @ centre)


def from_noise(channels: int, *, filters: int, side: int, seed: int) -> Dictionary:
    """Unit vectors of Gaussian noise; no image is looked at."""
    drawn = torch.from_numpy(rng.normal(seed, "patches", 0, filters * channels * side**2)).reshape(filters, -1)
    unit = functional.normalize(drawn, dim=1)
    return Dictionary(_centred(unit).reshape(filters, channels, side, side), unit.new_zeros(filters))


def cut(images: Tensor, at: Tensor, side: int, places: tuple[int, int]) -> Tensor:
    """The patches with these numbers [m, channels·P·P]; numbers run over columns, rows, images."""
    image, row, column = at // (places[0] * places[1]), at // places[1] % places[0], at % places[1]
    steps = torch.arange(side)
    rows, columns = row[:, None, None] + steps[None, :, None], column[:, None, None] + steps[None, None, :]
    return images.permute(0, 2, 3, 1)[image[:, None, None], rows, columns].permute(0, 3, 1, 2).flatten(1)


def normalised(patches: Tensor) -> Tensor:
    """p̂ of patches [m, channels·P·P]."""
    away = patches - patches.mean(1, keepdim=True)
    return away / (away.square().mean(1, keepdim=True) + NOISE).sqrt()


def _centred(kernel: Tensor) -> Tensor:
    """k · (p − mean p) = (k − mean k) · p."""
    return kernel - kernel.mean(1, keepdim=True)
