"""Parquet files, by pyarrow."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError
from mnemon.own_data.readers.reader import DIGEST, Changed, Chunk, Length, Position, Refuse
from mnemon.own_data.readers.records import Records
from mnemon.readers.columns import Columns, check_columns, check_label
from mnemon.readers.rows import Row

AT_ONCE = 1000  # rows made Python's at once


class ParquetReader(Records):
    """Values have the types of their columns. A file of this kind is written anew to grow, so the position digests the values
    of the rows and not the bytes of the file."""

    key = "row"

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(columns)
        self.path = path
        self._file = _open(path)
        self.names = self._names = list(self._file.schema_arrow.names)
        if len(set(self._names)) < len(self._names):
            raise MnemonError(f"two columns of {path} have the same name.")
        check_columns(columns, self._names, path)
        self._restart()

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        if labelled:
            check_label(self.columns, self._names, self.path)
        return super().chunks(start, length, refuse, labelled=labelled)

    def rows(self, start: Position) -> Iterator[tuple[int, Row | str]]:
        self._restart()
        for row in self._values():
            if self._count == start.rows > 0:
                self._check(start)
            self._count += 1
            self._digest.update(repr(tuple(row.values())).encode())
            if self._count > start.rows:
                yield self._count, row
        if self._count <= start.rows and start.rows:
            self._check(start)

    def position(self) -> Position:
        return Position(self._count, self._count, self._digest.digest())

    def done(self) -> float:
        return self._count / max(int(self._file.metadata.num_rows), 1)

    def _restart(self) -> None:
        self._count = 0
        self._digest = hashlib.blake2b(repr(self.names).encode(), digest_size=DIGEST)

    def _check(self, start: Position) -> None:
        if self.position() != start:
            raise Changed(f"{self.path} no longer begins with the {start.rows:,} rows that were read of it")

    def _values(self) -> Iterator[Row]:
        import pyarrow

        try:
            for batch in self._file.iter_batches(AT_ONCE):
                yield from batch.to_pylist()
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise MnemonError(f"{self.path} cannot be read: {error}") from None


def _open(path: Path) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MnemonError("reading Parquet needs the extra: pip install 'mnemon[parquet]'.") from None
    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise MnemonError(f"{path} is not a readable Parquet file ({error}).") from None
