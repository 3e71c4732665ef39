"""Readers of tables and arrays: a file as chunks of samples, each with the position from which reading can go on.

reader     what a reader is: columns, rows, positions
lines      the lines of a text file, counted and digested as they are handed out
records    rows that are dicts of features: which columns are label, identifier and features
csv_file   CSV and TSV, by the standard library
ndjson     one JSON object a line
parquet    Parquet, by pyarrow (the extra `mnemon[parquet]`)
arrays     .npz with x and y, or .npy with labels in another one

`open_reader(path)` picks one by the suffix.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mnemon.errors import MnemonError
from mnemon.own_data.readers.arrays import ArrayReader
from mnemon.own_data.readers.csv_file import CsvReader
from mnemon.own_data.readers.ndjson import NdjsonReader
from mnemon.own_data.readers.parquet import ParquetReader
from mnemon.own_data.readers.reader import Reader
from mnemon.readers.columns import NONE, Columns

KINDS = ".csv, .tsv, .ndjson, .jsonl, .parquet, .npz or .npy"
TABLES: dict[str, Callable[[Path, Columns], Reader]] = {
    ".csv": CsvReader,
    ".tsv": CsvReader,
    ".ndjson": NdjsonReader,
    ".jsonl": NdjsonReader,
    ".parquet": ParquetReader,
}
ARRAYS = (".npz", ".npy")


def is_table(path: Path) -> bool:
    """Whether the name is one of a table or an array."""
    return path.suffix.lower() in TABLES or is_array(path)


def is_array(path: Path) -> bool:
    return path.suffix.lower() in ARRAYS


def open_reader(path: Path, columns: Columns, labels: Path | None = None) -> Reader:
    """The reader of this file; `labels` is the .npy file of the labels of a .npy file."""
    suffix = path.suffix.lower()
    if not path.exists():
        raise MnemonError(f"there is no file {path}.")
    if not path.is_file():  # a pipe cannot be read twice, nor from a position
        raise MnemonError(f"{path} is not a plain file.")
    if is_array(path):
        if columns != NONE:
            raise MnemonError(
                f"{path} is an array, whose columns have no names: --label, --id and --ignore are for tables."
            )
        return ArrayReader(path, labels)
    if labels is not None:
        raise MnemonError(
            f"--labels is for arrays (.npy); the labels of the table {path} are a column: --label COLUMN."
        )
    if suffix not in TABLES:
        raise MnemonError(f"{path} is neither a folder of class folders nor a file of a known kind ({KINDS}).")
    return TABLES[suffix](path, columns)
