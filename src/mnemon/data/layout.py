"""Where the channels of images are: (n, channels, height, width) or (n, height, width, channels), by one rule everywhere.

The last side is the channels if it is 1, 3 or 4 and the first is not; the first is if it is 1, 3 or 4 and the last is above
4. Any other shape, such as (n, 16, 8, 8) or (n, 3, 9, 3), can be read in both ways; it is not guessed, but marked by
`channels_first` or `channels_last`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mnemon.errors import MnemonError

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


def is_last(shape: tuple[int, ...], what: str, learned: tuple[int, ...] | None = None) -> bool:
    """Whether images [n, …] have their channels last. `learned` is the shape a model knows, channels first: if only one
    reading fits it, that one is meant."""
    a, b, c = shape[1:]
    fits = [reading == learned for reading in ((a, b, c), (c, a, b))]
    if fits[0] != fits[1]:
        return fits[1]
    if c in COUNTS and a not in COUNTS:
        return True
    if a in COUNTS and c > max(COUNTS):  # not 2: a last side of 2 channels is as likely as a width of 2 pixels
        return False
    raise MnemonError(
        f"{what} of shape {shape} may have its channels first or last: say which with mnemon.data.channels_first({what}) or "
        f"mnemon.data.channels_last({what}); only a side of 1, 3 or 4 beside a longer one is taken for them unsaid."
    )
