"""NDJSON and CSV, from a file that may still grow or from stdin. A row is known by the byte behind it."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from mnemon.errors import MnemonError
from mnemon.files import parsed
from mnemon.sources.row import BadRow, Read, Row
from mnemon.sources.table import label_column, sample

LOOK = 0.2  # seconds between two looks at a file that may grow
LONGEST = 16 * 2**20  # bytes of a line


class Lines:
    """`stream` is what is read instead of the file, stdin say; it has no place to go on from."""

    def __init__(
        self,
        path: Path,
        *,
        format: str,
        label: str | None = None,
        follow: bool = False,
        stream: BinaryIO | None = None,
    ) -> None:
        self._path, self._format, self._label = path, format, label
        self._follow, self._stream = follow, stream

    @property
    def name(self) -> str | None:
        return None if self._stream is not None else f"lines:{self._path.resolve()}"

    def rows(self, after: int) -> Iterator[Read]:
        if self._stream is not None:
            yield from self._parsed(_Counted(self._stream, follow=False), 0)
            return
        try:
            with self._path.open("rb") as file:
                size = self._path.stat().st_size
                if size < after:
                    raise MnemonError(
                        f"{self._path} has {size:,} bytes, and {after:,} were read of it before: it was replaced. Give the new "
                        "file another name."
                    )
                yield from self._parsed(_Counted(file, follow=self._follow), after)
        except OSError as error:
            raise MnemonError(f"{self._path} cannot be read ({error.strerror}).") from None

    def _parsed(self, lines: _Counted, after: int) -> Iterator[Read]:
        return self._json(lines, after) if self._format == "ndjson" else self._csv(lines, after)

    def _json(self, lines: _Counted, after: int) -> Iterator[Read]:
        lines.skip_to(after)
        for line in lines:
            if line is None:
                yield None
            elif line.strip():
                where = f"{self._path}, {lines.where}"
                try:
                    yield Row(lines.at, where, *self._of_json(line))
                except (MnemonError, ValueError, RecursionError) as error:
                    yield BadRow(lines.at, where, str(error))

    def _of_json(self, line: bytes) -> tuple[Any, Any]:
        """{"x": …, "y": …}, or an object of features with the label among them."""
        found = parsed(line)
        if not isinstance(found, dict):
            raise MnemonError("a line is a JSON object.")
        if self._label is None and found.keys() == {"x", "y"}:
            return found["x"], found["y"]
        return sample(found, label_column(list(found), self._label))

    def _csv(self, lines: _Counted, after: int) -> Iterator[Read]:
        """The first line names the columns. A field in quotes may hold line breaks: a row ends where the reader is."""

        garbled = False

        def text() -> Iterator[str]:
            nonlocal garbled
            for line in lines:
                found = b"" if line is None else line  # the reader makes an empty row of nothing
                try:
                    yield found.decode()
                except UnicodeDecodeError:
                    garbled = True
                    yield found.decode(errors="replace")

        reader = csv.reader(text(), strict=True)
        columns: list[str] | None = None
        while True:
            try:
                found = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield BadRow(lines.at, f"{self._path}, {lines.where}", f"{error}.")
                continue
            if not found:
                yield None
                continue
            if columns is None:
                columns = found
                label = label_column(columns, self._label)
                lines.skip_to(max(after, lines.at))
                continue
            where = f"{self._path}, {lines.where}"
            if garbled:
                garbled = False
                yield BadRow(lines.at, where, "it is not text in UTF-8.")
                continue
            if len(found) != len(columns):
                yield BadRow(lines.at, where, f"there are {len(found)} fields and {len(columns)} columns.")
                continue
            try:
                yield Row(lines.at, where, *sample(dict(zip(columns, found, strict=True)), label))
            except MnemonError as error:
                yield BadRow(lines.at, where, str(error))


class _Counted:
    """Lines as bytes, with the byte behind the last one; None while a file that is followed has no whole line."""

    def __init__(self, stream: BinaryIO, *, follow: bool) -> None:
        self._stream, self._follow = stream, follow
        self.at = 0
        self._number, self._skipped = 0, False

    def skip_to(self, at: int) -> None:
        if at > self.at:
            self._stream.seek(at)
            self.at, self._skipped = at, True

    @property
    def where(self) -> str:
        return f"byte {self.at:,}" if self._skipped else f"line {self._number:,}"

    def __iter__(self) -> Iterator[bytes | None]:
        part = b""
        while True:
            part += self._stream.readline(LONGEST)
            if len(part) >= LONGEST:
                raise MnemonError(f"line {self._number + 1:,} has more than {LONGEST:,} bytes.")
            if part.endswith(b"\n") or (part and not self._follow):
                self.at += len(part)
                self._number += 1
                yield part
                part = b""
            elif not self._follow:
                return
            else:  # half a line: the rest may come
                yield None
                time.sleep(LOOK)
