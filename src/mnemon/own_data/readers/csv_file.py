"""CSV and TSV files with a header, by the standard library."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from mnemon.errors import MnemonError
from mnemon.own_data.readers.lines import BadLine, Lines
from mnemon.own_data.readers.reader import START, Chunk, Length, Position, Refuse
from mnemon.own_data.readers.records import Records
from mnemon.readers.cells import value
from mnemon.readers.columns import Columns, check_columns, check_label, header
from mnemon.readers.rows import Row


class CsvReader(Records):
    """Numbers are floats, an empty cell is a missing value, any other text is a text. UTF-8; the separator is the comma, of
    .tsv files the tab."""

    typed = False

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self.path = path
        self._separator = "\t" if path.suffix.lower() == ".tsv" else ","
        self._lines: Lines | None = None
        self._count = 0
        first = Lines(path)
        try:
            self.names = self.header = self._header(self._cells(first))
        finally:
            first.close()
        self._rest = [name for name in self.header if name not in columns.others]
        check_columns(columns, self.header, path)

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        if labelled:
            check_label(self.columns, self.header, self.path)
        return super().chunks(start, length, refuse, labelled=labelled)

    def rows(self, start: Position) -> Iterator[tuple[int, Row | str]]:
        lines = self._lines = Lines(self.path, start)
        self._count = start.rows
        try:
            cells = self._cells(lines)
            if start == START:
                self._header(cells)
            while True:
                number = lines.number + 1
                try:
                    found = next(cells)
                except StopIteration:
                    return
                except (csv.Error, BadLine) as error:
                    self._count += 1
                    yield number, f"{error}"
                    continue
                if not found:  # an empty line
                    continue
                self._count += 1
                yield number, self._row(found)
        finally:
            lines.close()

    def position(self) -> Position:
        assert self._lines is not None, "nothing was read yet"
        return self._lines.position(self._count)

    def done(self) -> float:
        return 0.0 if self._lines is None else self._lines.done()

    def _cells(self, lines: Lines) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self._separator, strict=True)

    def _header(self, cells: Iterator[list[str]]) -> list[str]:
        try:
            names = next(cells, [])
        except (csv.Error, BadLine) as error:
            raise MnemonError(f"{self.path}: the header cannot be read: {error}.") from None
        return header(names, self.path)

    def _row(self, cells: list[str]) -> Row | str:
        if len(cells) != len(self.header):
            return f"there are {len(cells)} cells, and the header has {len(self.header)}"
        row: Row = dict(zip(self.header, cells, strict=True))
        for name in self._rest:  # a label and an identifier stay text
            row[name] = value(row[name])
        return row
