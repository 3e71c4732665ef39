"""NDJSON (JSON Lines): one object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.own_data.readers.lines import BadLine, Lines
from mnemon.own_data.readers.reader import Chunk, Length, Position, Refuse
from mnemon.own_data.readers.records import Records
from mnemon.readers.columns import Columns
from mnemon.readers.rows import Row, nested


class NdjsonReader(Records):
    """Values have the types JSON gives them; null is a missing value, and an object or a list within a row is refused."""

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self.path = path
        self._lines: Lines | None = None
        self._count = 0

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        if labelled and self.columns.label is None:
            raise MnemonError(f"which field of {self.path} has the labels? Give --label NAME.")
        return super().chunks(start, length, refuse, labelled=labelled)

    def rows(self, start: Position) -> Iterator[tuple[int, Row | str]]:
        lines = self._lines = Lines(self.path, start)
        self._count = start.rows
        try:
            while True:
                number = lines.number + 1
                try:
                    line = next(lines)
                except StopIteration:
                    return
                except BadLine as error:
                    self._count += 1
                    yield number, f"{error}"
                    continue
                if not line.strip():
                    continue
                self._count += 1
                yield number, _row(line)
        finally:
            lines.close()

    def position(self) -> Position:
        assert self._lines is not None, "nothing was read yet"
        return self._lines.position(self._count)

    def done(self) -> float:
        return 0.0 if self._lines is None else self._lines.done()


def _row(line: str) -> Row | str:
    try:
        found: Any = files.parsed(line)
    except ValueError as error:
        return f"the line is not JSON ({error})"
    if not isinstance(found, dict):
        return f"the line is a JSON {type(found).__name__}, and a row is an object"
    return nested(found) or found
