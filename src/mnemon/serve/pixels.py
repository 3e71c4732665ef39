"""Image files as a served model takes them."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mnemon.data.images import decode_image
from mnemon.errors import MnemonError
from mnemon.serve.samples import Kind

MOST, TOGETHER = 25_000_000, 100_000_000  # pixels of a file, and of all files of a request, as they are decoded
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")


class TooMany(MnemonError):
    """The files of a request hold too many pixels."""


class PixelBudget:
    """The pixels that a request may have decoded: a file of a few bytes may hold millions."""

    def __init__(self) -> None:
        self._left = TOGETHER

    def spend(self, pixels: int) -> None:
        self._left -= pixels
        if self._left < 0:
            raise TooMany(f"these files hold more than {TOGETHER:,} pixels; send fewer at once, or smaller ones.")


def decoded(
    source: BinaryIO, name: str, kind: Kind | None, size: int, budget: PixelBudget | None = None
) -> NDArray[np.uint8]:
    """[height, width, channels]; of the size and the colours that came before, where something did."""
    channels = 3
    if kind is not None:
        if (
            kind.dtype != "uint8"
            or len(kind.shape) != 3
            or kind.shape[0] not in (1, 3)
            or kind.shape[1] != kind.shape[2]
        ):
            raise MnemonError("this model does not take square images of 8 bits a channel, so no files.")
        channels, size = kind.shape[0], kind.shape[1]
    spend = (budget or PixelBudget()).spend
    image = decode_image(source, name, size, formats=FORMATS, most=MOST, spend=spend, draft=True).transpose(1, 2, 0)
    if channels == 1:  # as Pillow's "L": ITU-R 601 luma
        image = np.rint(image @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)[:, :, None]
    return image
