"""Rows of a Parquet file, known by the file's content and their number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from mnemon.errors import MnemonError
from mnemon.readers.columns import Columns
from mnemon.sources.row import BadRow, Read, Row
from mnemon.sources.table import Rules


class Parquet:
    def __init__(self, path: Path, *, rules: Rules | None = None) -> None:
        self._path, self._rules = path, rules or Rules()

    @cached_property
    def name(self) -> str:
        found = hashlib.sha256()
        try:
            with self._path.open("rb") as file:
                while part := file.read(1 << 20):
                    found.update(part)
        except OSError as error:
            raise MnemonError(f"{self._path} cannot be read ({error.strerror}).") from None
        return f"parquet:{found.hexdigest()}"

    def rows(self, after: int) -> Iterator[Read]:
        """Row groups that were read before are skipped without reading them."""
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise MnemonError("Parquet needs pyarrow: pip install 'mnemon[parquet]'.") from None
        try:
            with pq.ParquetFile(self._path) as file:
                names = list(file.schema_arrow.names)
                if len(set(names)) < len(names):
                    raise MnemonError(f"two columns of {self._path} have the same name.")
                columns = self._rules.with_label(names, self._path)
                number = 0
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if number + rows <= after:
                        number += rows
                        continue
                    for batch in file.iter_batches(batch_size=1000, row_groups=[group]):
                        for found in batch.to_pylist():
                            number += 1
                            if number > after:
                                yield self._row(number, found, columns)
        except (OSError, pa.ArrowException) as error:
            raise MnemonError(f"{self._path} is not a readable Parquet file ({error}).") from None

    def _row(self, number: int, found: dict[str, object], columns: Columns) -> Row | BadRow:
        where = f"{self._path}, row {number:,}"
        try:
            return Row(number, where, *self._rules.of_values(found, columns))
        except MnemonError as error:
            return BadRow(number, where, str(error))
