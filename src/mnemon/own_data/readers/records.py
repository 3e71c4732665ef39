"""Rows that are dicts of features: which columns are the label and the identifier, and what a value may be."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from mnemon.errors import MnemonError, unknown
from mnemon.learning.labels import Label
from mnemon.own_data.readers.reader import Chunk, Columns, Length, Position, Refuse

Row = dict[str, Any]


class Records(ABC):
    """The part that readers of tables share. A subclass says where it is and hands out (number, row) or (number, sentence)."""

    key = "line"
    names: list[str] | None = None
    typed = True

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
        wanted = length()
        for number, row in self.rows(start):
            sentence = row if isinstance(row, str) else self._take(row, x, y, ids, labelled)
            if sentence is not None:
                refuse(number, sentence)
                continue
            numbers.append(number)
            if len(x) == wanted:
                yield self._chunk(x, y, numbers, ids, labelled)
                x, y, numbers, ids = [], [], [], []
                wanted = length()
        if x:
            yield self._chunk(x, y, numbers, ids, labelled)

    def _chunk(self, x: list[Row], y: list[Label], numbers: list[int], ids: list[Any], labelled: bool) -> Chunk:
        named = ids if self.columns.id is not None else None
        return Chunk(self.position(), x, y if labelled else None, numbers, named, self.done())

    def _take(self, row: Row, x: list[Row], y: list[Label], ids: list[Any], labelled: bool) -> str | None:
        """Add the row to the chunk; or say why it cannot be."""
        label, name, ignore = self.columns
        features = {
            column: value
            for column, value in row.items()
            if column != label and column != name and column not in ignore
        }
        for column, value in features.items():
            if not is_value(value):
                return f"{column!r} holds a value of type {type(value).__name__}, and a feature is a number, a text or empty"
        if labelled:
            given = row.get(label) if label is not None else None
            if given is None or given == "" or (isinstance(given, float) and math.isnan(given)):
                return f"there is no label in {label!r}"
            y.append(given)
        x.append(features)
        ids.append(row.get(name) if name is not None else None)
        return None

    def check_columns(self, names: list[str], path: object) -> None:
        """Refuse columns that are asked for and not there; a label need not be there to predict."""
        for column in (self.columns.id, *self.columns.ignore):
            if column is not None and column not in names:
                raise unknown(f"column of {path}:", column, names)


def check_label(columns: Columns, names: list[str], path: object) -> None:
    """Refuse to learn or evaluate a table without the column of its labels."""
    shown = ", ".join(names[:20]) + (" …" if len(names) > 20 else "")
    if columns.label is None:
        raise MnemonError(f"which column of {path} has the labels? Give --label COLUMN; there are: {shown}.")
    if columns.label not in names:
        raise unknown(f"column of {path}:", columns.label, names)


def is_value(value: Any) -> bool:
    """Whether it may be a feature: a number that a float can hold, a text, or nothing."""
    if type(value) is int:
        return -(2**1023) < value < 2**1023
    return value is None or type(value) in (float, str, bool)
