"""A saved model that takes images, and image files as it takes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mnemon.data.images import read_image
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier

ImageArray = NDArray[np.uint8]  # [n, height, width, channels]


class ImageModel:
    """An OnlineClassifier for square images; it knows what to do with a file."""

    def __init__(self, classifier: OnlineClassifier, size: int, channels: int) -> None:
        self.classifier, self.size, self.channels = classifier, size, channels

    @classmethod
    def load(cls, folder: Path, device: str | None = None) -> ImageModel:
        return cls.of(OnlineClassifier.load(folder, device=device), folder)

    @classmethod
    def of(cls, classifier: OnlineClassifier, folder: Path) -> ImageModel:
        """Of the classifier that was saved in this folder."""
        shape, dtype, *_ = classifier._model.inputs
        if len(shape) == 1:
            raise MnemonError(f"the model {folder} takes the rows of a table or array, not images.")
        if len(shape) != 3 or dtype != torch.uint8 or shape[0] not in (1, 3) or shape[1] != shape[2]:
            raise MnemonError(
                f"the model {folder} does not take square images of 8 bits a channel, so it cannot be used with image "
                "files; use it from Python (mnemon.OnlineClassifier.load)."
            )
        return cls(classifier, shape[1], shape[0])

    def read(self, path: Path) -> ImageArray:
        """[height, width, channels]: brought to the size the model has learned, grey where it has learned grey."""
        return read(path, self.size, self.channels)


def read(path: Path, size: int, channels: int = 3) -> ImageArray:
    image = read_image(path, size).transpose(1, 2, 0)
    if channels == 1:  # as Pillow's "L": ITU-R 601 luma
        image = np.rint(image @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)[:, :, None]
    return image
