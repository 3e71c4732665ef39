"""Where the channels of images are: (n, channels, height, width) or (n, height, width, channels), by one rule everywhere.

A side of 1, 3 or 4 is the channels if the other one is above 4. Any other shape, such as (n, 16, 8, 8) or (n, 3, 9, 3), can
be read in both ways and is read in the usual one of the function that takes it: channels first in `mnemon.run`, as in
PyTorch, channels last in `OnlineClassifier`, as in scikit-image. `channels_first` and `channels_last` say it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COUNTS = (1, 3, 4)  # grey, colour, colour and transparency


@dataclass(frozen=True)
class Marked:
    """Images of any kind that say where their channels are."""

    values: Any
    last: bool


def channels_first(images: Any) -> Marked:
    """Mark images as (n, channels, height, width)."""
    return Marked(images, last=False)


def channels_last(images: Any) -> Marked:
    """Mark images as (n, height, width, channels)."""
    return Marked(images, last=True)


def unmark(values: Any) -> tuple[Any, bool | None]:
    """Return the values, and whether their channels are last; None: they are not marked."""
    return (values.values, values.last) if isinstance(values, Marked) else (values, None)


def is_last(shape: tuple[int, ...], *, usual: bool, learned: tuple[int, ...] | None = None) -> bool:
    """Whether images [n, …] have their channels last; `usual` where the shape does not tell. `learned` is the shape a model
    knows, channels first: if only one reading fits it, that one is meant."""
    a, b, c = shape[1:]
    fits = [reading == learned for reading in ((a, b, c), (c, a, b))]
    if fits[0] != fits[1]:
        return fits[1]
    if c in COUNTS and a > max(COUNTS):
        return True
    if a in COUNTS and c > max(COUNTS):
        return False
    return usual
