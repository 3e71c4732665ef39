"""Rows of CSV out of lines: a field in quotes may hold line breaks."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from mnemon.errors import MnemonError
from mnemon.readers.columns import separator
from mnemon.sources.line_reader import LONGEST

LINES = 100  # of a row: more come from a quote too many
BOM = b"\xef\xbb\xbf"  # Excel begins a file with it


class Line(NamedTuple):
    content: bytes
    number: int
    where: str


END = Line(b"", 0, "")


class CsvRow(NamedTuple):
    """Lines that belong together; `closed`: each quote has its end."""

    lines: list[Line]
    closed: bool
    separator: str = ","

    def cells(self) -> list[str]:
        """Nothing of an empty line."""
        if not self.closed:
            raise MnemonError(f"a quote is opened and not closed within {LINES} lines, nor before the end.")
        try:
            text = b"".join(line.content for line in self.lines).decode()
        except UnicodeDecodeError:
            raise MnemonError("it is not text in UTF-8, in which the file must be saved.") from None
        try:
            return next(csv.reader([text], delimiter=self.separator, strict=True), [])
        except csv.Error as error:
            raise MnemonError(f"{error}.") from None


def csv_rows(lines: Iterator[Line | None], usual: str = ",") -> Iterator[CsvRow | None]:
    """None where `lines` has None. The first line that is not empty shows the separator. Where a quote stays open, the line
    with it is a row of its own, and those behind it are read as if it were not there."""
    again: deque[Line] = deque()
    row: list[Line] = []
    quoted, between = False, ""
    while True:
        line = again.popleft() if again else next(lines, END)
        if line is None:
            yield None
            continue
        if line is not END:
            row.append(line)
            if not between and line.content.strip(b"\r\n"):
                between = separator(line.content.decode(errors="replace"), usual)
            quoted = ends_in_quotes(line.content, quoted, between.encode())
        elif not row:
            return
        if not quoted:
            yield CsvRow(row, True, between or usual)
        elif line is END or len(row) > LINES or sum(len(each.content) for each in row) > LONGEST:
            yield CsvRow(row[:1], False, between or usual)
            again.extendleft(reversed(row[1:]))
        else:
            continue
        row, quoted = [], False


def ends_in_quotes(line: bytes, quoted: bool, separator: bytes = b",") -> bool:
    """Whether a quote is open behind a line, which began within one or not. A quote opens a field at its beginning alone."""
    at = 0
    while line.find(b'"', at) >= 0:
        if quoted:
            at = line.index(b'"', at) + 1
            if line[at : at + 1] == b'"':
                at += 1  # a quote within the text is written twice
            else:
                quoted = False
        elif at == 0 and line.startswith(b'"'):
            at, quoted = 1, True
        else:
            at = line.find(separator + b'"', at)
            if at < 0:
                break
            at, quoted = at + len(separator) + 1, True
    return quoted
