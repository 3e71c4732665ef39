"""NDJSON and CSV, from a file that may still grow or from stdin. A row is known by its file and by the byte behind it.

Under one path there may be several files in turn, as with a log that is rotated: each is a producer of its own, and is known
again by what was read of it.
"""

from __future__ import annotations

import glob
import io
import logging
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from mnemon.errors import MnemonError
from mnemon.files import parsed
from mnemon.readers.columns import header, separated
from mnemon.sources import line_reader
from mnemon.sources.csv_rows import BOM, CsvRow, Line, csv_rows
from mnemon.sources.line_reader import FileReader, LineReader, StreamReader
from mnemon.sources.prefix import ENDS, Prefix, byte
from mnemon.sources.row import BadRow, Read, Row
from mnemon.sources.table import Rules

logger = logging.getLogger(__name__)
MOST_FILES = 10_000  # under one path, one after the other: a journal knows no more producers


class _Begin(NamedTuple):
    path: Path  # another than the source's: of the file that was rotated away, the rest comes first
    file: int  # the how manieth under the source's path
    at: int  # byte


class Lines:
    """`count` is the last number of a producer. `stream` is what is read instead of the file, stdin say; it has no place to go
    on from."""

    def __init__(
        self,
        path: Path,
        *,
        format: str,
        rules: Rules | None = None,
        follow: bool = False,
        stream: BinaryIO | None = None,
        count: Callable[[str], int | None] = lambda name: None,
    ) -> None:
        self._path, self._format, self._rules = path, format, rules or Rules()
        self._follow, self._stream, self._count = follow, stream, count

    @property
    def name(self) -> str | None:
        return None if self._stream is not None else self._name(self._begin.file)

    def _name(self, file: int) -> str:
        return f"lines/{file}:{self._place}"

    @cached_property
    def _place(self) -> Path:
        return self._path.resolve()

    def rows(self, after: int) -> Iterator[Read]:
        if self._stream is not None:
            yield from self._parsed(StreamReader(self._stream), Prefix(), None)
            return
        path, file, at = self._begin
        while True:
            found = self._opened(path)
            if found is None:
                yield None
                time.sleep(line_reader.LOOK)
                continue
            with found:
                try:
                    prefix = Prefix.read(found, max(at, byte(after)))
                    if after and prefix.number != after:
                        raise self._replaced(byte(after))
                    lines = FileReader(path, found, follow=self._follow and path == self._path)
                    found.seek(0)
                    yield from self._parsed(lines, prefix, self._name(file))
                except OSError as error:
                    raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None
            if not self._follow:
                return
            if lines.cut:
                logger.warning(f"{path} was cut off while its last line was half written; that line is left out.")
            path, file, at, after = self._path, max([file, *self._known]) + 1, 0, 0

    def _opened(self, path: Path) -> io.FileIO | None:
        """None: it is being replaced just now."""
        try:
            return io.FileIO(path)
        except FileNotFoundError as error:
            if not self._follow:
                raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None
            return None
        except OSError as error:
            raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None

    # --- which file it is

    @cached_property
    def _known(self) -> dict[int, int]:
        """The files that were read under this path, with their last numbers."""
        counts = {file: self._count(self._name(file)) for file in range(MOST_FILES)}
        return {file: number for file, number in counts.items() if number is not None}

    @cached_property
    def _begin(self) -> _Begin:
        found = self._file_of(self._path)
        if found is not None:
            return found
        last = max(self._known, default=0)
        if not self._known:
            return self._begin_as_before()
        at = byte(self._known[last])
        if not self._follow:
            raise self._replaced(at)
        beside = [path for path in sorted(self._path.parent.glob(f"{glob.escape(self._path.stem)}*")) if path.is_file()]
        for path in beside:
            moved = self._file_of(path)
            if moved is not None and moved.file == last:
                logger.warning(f"{self._path} is another file than before; the rest of {path} is read first.")
                written = path.stat().st_mtime_ns
                if newer := [p.name for p in beside if p != self._path and p.stat().st_mtime_ns > written]:
                    logger.warning(
                        f"not read: {', '.join(newer)}, written after {path.name}; name them as sources, too."
                    )
                return moved
        self._warn_of_new(at)
        return _Begin(self._path, last + 1, 0)

    def _file_of(self, path: Path) -> _Begin | None:
        """The file that was read under the source's path and now lies here, and how far it was read."""
        try:
            with io.FileIO(path) as found:
                for file, number in reversed(self._known.items()):
                    at = byte(number)
                    if file != max(self._known) and at < ENDS:
                        continue  # of a few bytes, another file may have the same
                    if Prefix.read(found, at).number == number:
                        return _Begin(path, file, at)
        except OSError as error:
            if path == self._path:
                raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None
        return None

    def _begin_as_before(self) -> _Begin:
        """Nothing is known, or a byte alone, which is what mnemon kept before it looked at the content."""
        at = self._count(f"lines:{self._place}") or 0
        if self._path.stat().st_size >= at:
            return _Begin(self._path, 0, at)
        if not self._follow:
            raise self._replaced(at)
        self._warn_of_new(at)
        return _Begin(self._path, 0, 0)

    def _warn_of_new(self, at: int) -> None:
        logger.warning(
            f"{self._path} is another file than the one of which {at:,} bytes were read, which is not found beside it: the "
            "new one is read from its start, and what the old one had behind them is not."
        )

    def _replaced(self, at: int) -> MnemonError:
        return MnemonError(
            f"{self._path} is not the file any more of which {at:,} bytes were read: it was replaced. Give the new file "
            "another name; with --follow it is taken for a log that was rotated, and read from its start."
        )

    # --- rows

    def _parsed(self, lines: LineReader, prefix: Prefix, producer: str | None) -> Iterator[Read]:
        rows = self._json if self._format == "ndjson" else self._csv
        for row in rows(lines, prefix):
            yield row._replace(producer=producer) if isinstance(row, Row) else row

    def _lines(self, lines: LineReader) -> Iterator[Line | None]:
        for line in lines:
            if line is not None and len(line) == lines.prefix.at:
                line = line.removeprefix(BOM)
            yield None if line is None else Line(line, lines.prefix.number, f"{self._path}, {lines.where}")

    def _json(self, lines: LineReader, prefix: Prefix) -> Iterator[Read]:
        yield from self._skip(lines, prefix)
        for line in self._lines(lines):
            if line is None:
                yield None
            elif line.content.strip():
                try:
                    yield Row(line.number, line.where, *self._of_json(line.content))
                except (MnemonError, ValueError, RecursionError) as error:
                    yield from self._bad(line, lines, error)

    def _of_json(self, line: bytes) -> tuple[Any, Any]:
        """{"x": …, "y": …}, or an object of features with the label among them."""
        found = parsed(line)
        if not isinstance(found, dict):
            raise MnemonError("a line is a JSON object.")
        label = self._rules.columns.label
        if found.keys() == {"x", "y"} and (
            label is None or (label not in found and isinstance(found["x"], dict | list))
        ):
            return self._rules.of_pair(found["x"], found["y"])
        columns = self._rules.columns if label is not None else self._rules.with_label(list(found), self._path)
        return self._rules.of_values(found, columns)

    def _csv(self, lines: LineReader, prefix: Prefix) -> Iterator[Read]:
        """The first line names the columns."""
        usual = self._rules.columns.separator or ("\t" if self._path.suffix.lower() == ".tsv" else ",")
        rows = csv_rows(self._lines(lines), usual)
        names: list[str] = []
        for row in rows:
            if row is None:
                yield None
            elif names := _cells(row):
                if row.separator != usual:
                    logger.warning(separated(self._path, row.separator))
                break
        if not names:
            return
        names = header(names, self._path, strip=self._rules.columns.strip)
        columns = self._rules.with_label(names, self._path)
        yield from self._skip(lines, prefix)
        for row in rows:
            if row is None:
                yield None
                continue
            last = row.lines[-1]
            try:
                found = row.cells()
                if found and len(found) != len(names):
                    raise MnemonError(f"there are {len(found)} cells, and the header has {len(names)}.")
                if found:
                    cells = dict(zip(names, found, strict=True))
                    yield Row(last.number, last.where, *self._rules.of_texts(cells, columns, self._path))
            except MnemonError as error:
                yield from self._bad(last, lines, error)

    def _skip(self, lines: LineReader, prefix: Prefix) -> Iterator[Read]:
        """Go on behind what was read before. Of a last line that had no end then, no more may have come since."""
        if not isinstance(lines, FileReader) or prefix.at <= lines.prefix.at:
            return
        lines.skip_to(prefix)
        if prefix.last.endswith(b"\n"):
            return
        for line in self._lines(lines):
            if line is None:
                yield None
                continue
            if line.content.strip():
                why = (
                    f"the line up to byte {prefix.at:,} was learned when it had no end yet, and was written on since. It is "
                    "learned as it was then; --skip-bad goes on with the next line."
                )
                yield BadRow(line.number, line.where, why)
            return

    def _bad(self, line: Line, lines: LineReader, error: Exception) -> Iterator[Read]:
        """The last line of a file may be half written."""
        if isinstance(lines, FileReader) and not line.content.endswith(b"\n"):
            logger.warning(
                f"{line.where}: the last line has no end yet and is no whole row; it is left for the next time."
            )
        else:
            yield BadRow(line.number, line.where, str(error))


def _cells(row: CsvRow) -> list[str]:
    """The names of columns."""
    try:
        return row.cells()
    except MnemonError as error:
        raise MnemonError(f"{row.lines[0].where}: {error}") from None
