"""What this package returns: a dataset, the images of a folder, and a line of the listing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Dataset:
    """Images and labels, cut into train and test, in canonical order."""

    name: str
    x_train: torch.Tensor  # uint8 [n, channels, height, width]
    y_train: torch.Tensor  # int64 [n], labels 0..C-1
    x_test: torch.Tensor  # uint8 [m, channels, height, width]
    y_test: torch.Tensor  # int64 [m]
    classes: tuple[str, ...]  # the name of each label
    mean: float  # network input = (pixel - mean) / std, in pixel units
    std: float
    checksum: str  # SHA-256 (hex) of the canonical content


@dataclass(frozen=True)
class Images:
    """The images of one folder with a sub-folder per class, uncut, in order of class and then of file name."""

    x: torch.Tensor  # uint8 [n, 3, height, width]
    y: torch.Tensor  # int64 [n], the position in `classes`
    classes: tuple[str, ...]  # the sub-folder names, sorted
    files: tuple[Path, ...]  # where each row came from


@dataclass(frozen=True)
class Info:
    """One line of `mnemon data list`."""

    name: str
    description: str
    classes: int
    train: int
    test: int
    shape: tuple[int, ...]  # channels, height, width
    state: str  # "ready", "not here", "built in" or "damaged"
    path: Path | None  # the stored file, where there is one
    licence: str
