"""What a reader is: it turns a file into chunks of samples, and can go on from where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mnemon.errors import MnemonError
from mnemon.learning.labels import Label
from mnemon.readers.columns import Columns

DIGEST = 16  # bytes


class Position(NamedTuple):
    """How far a file was read."""

    rows: int  # read, those that were refused among them
    offset: int  # where the next row begins: the byte of a text file, the row of any other
    digest: bytes  # of everything before it


START = Position(0, 0, b"")


@dataclass(frozen=True)
class Chunk:
    """Samples that follow each other in the file."""

    position: Position  # behind the last of them
    x: Any  # a list of dicts, or an array [n, …]
    y: list[Label] | None  # None where no labels were asked for
    numbers: list[int]  # of the line or row each sample begins in, counted from 1
    ids: list[Any] | None  # what the column `id` says
    done: float  # the share of the file that is read, 0 … 1

    def __len__(self) -> int:
        return len(self.numbers)

    def without(self, left_out: set[int]) -> Chunk:
        """All samples but those at these places."""
        kept = [i for i in range(len(self)) if i not in left_out]
        x = [self.x[i] for i in kept] if isinstance(self.x, list) else self.x[kept]
        y, ids = (None if each is None else [each[i] for i in kept] for each in (self.y, self.ids))
        return replace(self, x=x, y=y, ids=ids, numbers=[self.numbers[i] for i in kept])


Length = Callable[[], int]  # of the next chunk: it may depend on what was done with the chunks before
# Told the number of a row and what is wrong with it; what it raises ends the reading, once the rows before it are handed out.
Refuse = Callable[[int, str], None]


class Changed(MnemonError):
    """A file no longer begins with the rows that were read."""


class Reader(Protocol):
    key: str  # what a number counts: "line" or "row"
    names: list[str] | None  # of the columns, where the file states them once
    typed: bool  # whether labels and values have types of their own; in a CSV file all are text
    path: Path
    columns: Columns
    notice: str | None  # what was found out about the file and should be said

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        """The samples behind `start`. A row that is none is refused and passed over. Raises Changed if the file does not
        begin with what was read before `start`. With `labelled`, a row without a label is none."""


def holds(reader: Reader, position: Position) -> bool:
    """Whether the file begins with what was read up to the position."""
    try:
        next(reader.chunks(position, lambda: 1, lambda number, sentence: None, labelled=False), None)
    except Changed:
        return False
    return True
