"""CSV and TSV files with a header, by the standard library."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from mnemon.errors import MnemonError
from mnemon.own_data.readers.lines import BadLine, Lines
from mnemon.own_data.readers.reader import START, Chunk, Length, Position, Refuse
from mnemon.own_data.readers.records import TextReader
from mnemon.readers.columns import Columns, check_columns, check_label, header, separated, separator
from mnemon.readers.rows import Row


class CsvReader(TextReader):
    """All cells are text: what they stand for depends on what the model knows. UTF-8; the separator is the comma, of .tsv
    files the tab, or what the header shows."""

    typed = False

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(path, columns)
        self._separator = self._found_separator()
        first = Lines(path)
        try:
            self.names = self.header = self._header(self._cells(first))
        finally:
            first.close()
        check_columns(columns, self.header, path)

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        if labelled:
            check_label(self.columns, self.header, self.path)
        return super().chunks(start, length, refuse, labelled=labelled)

    def items(self, lines: Lines, start: Position) -> Iterator[list[str]]:
        cells = self._cells(lines)
        if start == START:
            self._header(cells)
        return cells

    def row(self, item: list[str]) -> Row | str | None:
        if not item:
            return None
        if len(item) != len(self.header):
            return f"there are {len(item)} cells, and the header has {len(self.header)}"
        return dict(zip(self.header, item, strict=True))

    def _cells(self, lines: Lines) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self._separator, strict=True)

    def _header(self, cells: Iterator[list[str]]) -> list[str]:
        try:
            names = next(cells, [])
        except (csv.Error, BadLine) as error:
            raise MnemonError(f"{self.path}: the header cannot be read: {error}.") from None
        return header(names, self.path, strip=self.columns.strip)

    def _found_separator(self) -> str:
        usual = self.columns.separator or ("\t" if self.path.suffix.lower() == ".tsv" else ",")
        first = Lines(self.path)
        try:
            line = next(first, "")
        except BadLine:  # said of the header
            return usual
        finally:
            first.close()
        if not line:
            raise MnemonError(f"{self.path} is empty; it needs a header with the names of its columns.")
        found = separator(line, usual)
        if found != usual:
            self.notice = separated(self.path, found)
        return found
