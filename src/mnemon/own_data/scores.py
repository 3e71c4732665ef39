"""Predictions as a file: CSV, NDJSON or Parquet, written whole or not at all."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.own_data.predict import Predicted

AT_ONCE = 10_000  # rows of a Parquet row group


def check(out: Path) -> None:
    """Refuse a place or a kind that cannot be written, before anything is predicted."""
    if out.suffix.lower() not in WRITERS:
        raise MnemonError(f"{out} has no known kind; predictions are written as {', '.join(WRITERS)}.")
    if out.is_dir() or not out.parent.is_dir():
        raise MnemonError(f"{out} cannot be written: it is a folder, or its folder is not there.")
    if out.suffix.lower() == ".parquet":
        _pyarrow()


def write(found: Iterable[Predicted], out: Path, *, key: str, top: int) -> None:
    """`key` is what a prediction's name is called: image, line or row. What `found` raises leaves no file."""
    with files.explained(f"{out} could not be written"):
        files.replace(out, lambda part: WRITERS[out.suffix.lower()](found, part, key, top))


def as_json(found: Predicted, key: str, top: int) -> dict[str, Any]:
    """A prediction as `--json` prints it."""
    line: dict[str, Any] = {key: found.name}
    if found.id is not None:
        line["id"] = found.id
    if found.error is not None:
        return line | {"error": found.error}
    best = found.guesses[0]
    line |= {"label": None if found.unsure else best.label, "confidence": best.confidence}
    return line | ({"top": [each._asdict() for each in found.guesses]} if top > 1 else {})


def _flat(found: Predicted, key: str, top: int) -> dict[str, Any]:
    """A prediction as a row of a table: label, confidence, label_2, confidence_2, …"""
    row = {key: found.name, "id": found.id}
    for place in range(top):
        label, confidence = found.guesses[place] if place < len(found.guesses) else (None, None)
        end = f"_{place + 1}" if place else ""
        row |= {f"label{end}": None if found.unsure and place == 0 else label, f"confidence{end}": confidence}
    return row | {"error": found.error}


def _csv(found: Iterable[Predicted], part: Path, key: str, top: int) -> None:
    with part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.DictWriter(file, list(_flat(Predicted("", []), key, top)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(_flat(each, key, top) for each in found)


def _ndjson(found: Iterable[Predicted], part: Path, key: str, top: int) -> None:
    with part.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(as_json(each, key, top)) + "\n" for each in found)


def _parquet(found: Iterable[Predicted], part: Path, key: str, top: int) -> None:
    """Labels and identifiers are text here: a column of Parquet has one type, and labels may have several."""
    pyarrow, parquet = _pyarrow()
    number = pyarrow.string() if key == "image" else pyarrow.int64()
    types = {
        name: number if name == key else pyarrow.float64() if name.startswith("confidence") else pyarrow.string()
        for name in _flat(Predicted("", []), key, top)
    }
    with parquet.ParquetWriter(part, pyarrow.schema(list(types.items()))) as writer:
        for rows in _blocks(found):
            made = [_flat(each, key, top) for each in rows]
            for row in made:
                for name, value in row.items():
                    if types[name] == pyarrow.string() and value is not None:
                        row[name] = str(value)
            writer.write_table(pyarrow.Table.from_pylist(made, pyarrow.schema(list(types.items()))))


def _blocks(found: Iterable[Predicted]) -> Iterator[tuple[Predicted, ...]]:
    rest = iter(found)
    while block := tuple(islice(rest, AT_ONCE)):
        yield block


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MnemonError("writing Parquet needs the extra: pip install 'mnemon[parquet]'.") from None
    return pyarrow, parquet


WRITERS: dict[str, Callable[[Iterable[Predicted], Path, str, int], None]] = {
    ".csv": _csv,
    ".ndjson": _ndjson,
    ".jsonl": _ndjson,
    ".parquet": _parquet,
}
