"""The lines of a text file, counted and digested as they are handed out."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from mnemon.errors import MnemonError
from mnemon.own_data.readers.reader import DIGEST, START, Changed, Position

LONGEST = 2**24  # bytes of a line
BLOCK = 2**20  # bytes read at once to find out whether a file is still the same


class BadLine(ValueError):
    """A line that is no text."""


class Lines:
    """An iterator of lines. A reader that takes them one by one knows at each row how many bytes that was and what was in
    them, so the position behind the row costs nothing."""

    def __init__(self, path: Path, start: Position = START) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
            self.size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None
        self._digest = hashlib.blake2b(digest_size=DIGEST)
        self.offset = self.number = 0  # bytes and lines handed out
        if start.offset:
            try:
                self._skip(start)
            except BaseException:
                self.close()
                raise

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            line = self._file.readline(LONGEST)
        except OSError as error:
            raise MnemonError(f"{self.path} cannot be read ({error.strerror}).") from None
        if not line:
            raise StopIteration
        if len(line) == LONGEST:
            raise MnemonError(f"{self.path}, line {self.number + 1}: the line is longer than {LONGEST:,} bytes.")
        first = self.offset == 0
        self._take(line)
        try:
            return line.decode("utf-8-sig" if first else "utf-8")
        except UnicodeDecodeError:
            raise BadLine("the line is not text in UTF-8, in which the file must be saved") from None

    def position(self, rows: int) -> Position:
        """Behind all that was handed out, which were so many rows."""
        return Position(rows, self.offset, self._digest.digest())

    def done(self) -> float:
        return self.offset / max(self.size, self.offset, 1)

    def close(self) -> None:
        self._file.close()

    def _take(self, content: bytes) -> None:
        self._digest.update(content)
        self.offset += len(content)
        self.number += content.count(b"\n")

    def _skip(self, start: Position) -> None:
        """Pass over what was read before; it must still be there, and end where a row ends."""
        last = b""
        while self.offset < start.offset and (block := self._file.read(min(BLOCK, start.offset - self.offset))):
            self._take(block)
            last = block
        if self.offset < start.offset or self._digest.digest() != start.digest:
            raise Changed(f"{self.path} no longer begins with the {start.rows:,} rows that were read of it")
        if not last.endswith((b"\n", b"\r")):  # now the last row must have its end, or be the last still
            following = self._file.peek(1)[:1]
            if following and following not in b"\r\n":
                raise Changed(f"row {start.rows:,} of {self.path} was read before it was written to its end")
