"""Rows that are dicts, gathered into chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from mnemon.errors import MnemonError
from mnemon.learning.labels import Label
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
