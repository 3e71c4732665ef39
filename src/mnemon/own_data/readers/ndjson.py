"""NDJSON (JSON Lines): one object a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.own_data.readers.lines import Lines
from mnemon.own_data.readers.reader import Chunk, Length, Position, Refuse
from mnemon.own_data.readers.records import TextReader
from mnemon.readers.rows import Row, nested


class NdjsonReader(TextReader):
    """Values have the types JSON gives them; null is a missing value, and an object or a list within a row is refused."""

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        if labelled and self.columns.label is None:
            raise MnemonError(f"which field of {self.path} has the labels? Give --label NAME.")
        return super().chunks(start, length, refuse, labelled=labelled)

    def items(self, lines: Lines, start: Position) -> Iterator[str]:
        return lines

    def row(self, item: str) -> Row | str | None:
        if not item.strip():
            return None
        try:
            found: Any = files.parsed(item)
        except ValueError as error:
            return f"the line is not JSON ({error})"
        if not isinstance(found, dict):
            return f"the line is a JSON {type(found).__name__}, and a row is an object"
        return nested(found) or found
