"""What a source yields."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """One sample. `number` rises within the source; `where` says to a person which one it is."""

    number: int
    where: str
    x: Any  # a dict of features, a list of numbers, or an image [height, width, channels]
    y: Any
    key: bytes | None = None  # where content, not a place, tells samples apart
    producer: str | None = None  # where the source is read as several files, one after the other: which one


class BadRow(NamedTuple):
    """A place where no sample could be read."""

    number: int
    where: str
    why: str


Read = Row | BadRow | None  # None: nothing new at the moment
