"""Rows that are dicts, gathered into chunks."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError
from mnemon.learning.labels import Label
from mnemon.own_data.readers.lines import BadLine, Lines
from mnemon.own_data.readers.reader import Chunk, Length, Position, Refuse
from mnemon.readers.columns import Columns
from mnemon.readers.rows import Row, sample


class Records(ABC):
    """The part that readers of tables share. A subclass says where it is and hands out (number, row) or (number, sentence)."""

    key = "line"
    names: list[str] | None = None
    typed = True
    notice: str | None = None

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    @abstractmethod
    def rows(self, start: Position) -> Iterator[tuple[int, Row | str]]:
        """The rows behind `start` with their numbers; a sentence in the place of a row that is none."""

    @abstractmethod
    def position(self) -> Position:
        """Behind the row that was handed out last."""

    @abstractmethod
    def done(self) -> float:
        """The share of the file that was handed out."""

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        x: list[Row] = []
        y: list[Label] = []
        numbers: list[int] = []
        ids: list[Any] = []
        wanted, begun = length(), start
        for number, row in self.rows(start):
            found = row if isinstance(row, str) else sample(row, self.columns, labelled=labelled, texts=not self.typed)
            if isinstance(found, str):
                try:
                    refuse(number, found)
                except MnemonError:
                    if x:  # read once more, since the position behind them is known no longer
                        yield next(self.chunks(begun, x.__len__, lambda *_: None, labelled=labelled))
                    raise
                continue
            x.append(found.x)
            y.append(found.y)
            ids.append(found.id)
            numbers.append(number)
            if len(x) == wanted:
                yield self._chunk(x, y, numbers, ids, labelled)
                begun = self.position()
                x, y, numbers, ids = [], [], [], []
                wanted = length()
        if x:
            yield self._chunk(x, y, numbers, ids, labelled)

    def _chunk(self, x: list[Row], y: list[Label], numbers: list[int], ids: list[Any], labelled: bool) -> Chunk:
        named = ids if self.columns.id is not None else None
        return Chunk(self.position(), x, y if labelled else None, numbers, named, self.done())


class TextReader(Records):
    """Of files that are lines of text: a subclass says what these are split into, and what an item holds."""

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self.path = path
        self._lines: Lines | None = None
        self._count = 0

    @abstractmethod
    def items(self, lines: Lines, start: Position) -> Iterator[Any]:
        """What the lines behind `start` are split into. It goes on after an error: a generator would not."""

    @abstractmethod
    def row(self, item: Any) -> Row | str | None:
        """The row, a sentence in the place of one, or None where the line is empty."""

    def rows(self, start: Position) -> Iterator[tuple[int, Row | str]]:
        lines = self._lines = Lines(self.path, start)
        self._count = start.rows
        try:
            items = self.items(lines, start)
            while True:
                number = lines.number + 1
                try:
                    found = self.row(next(items))
                except StopIteration:
                    return
                except (csv.Error, BadLine) as error:
                    found = str(error)
                if found is not None:
                    self._count += 1
                    yield number, found
        finally:
            lines.close()

    def position(self) -> Position:
        assert self._lines is not None, "nothing was read yet"
        return self._lines.position(self._count)

    def done(self) -> float:
        return 0.0 if self._lines is None else self._lines.done()
