"""The settings of rows beyond the paper, chosen on validation: beyond.json beside this file, one line for each row and stream.

They are not recipes: a row of a track has the method and loss of a cell of the paper's tables, at other values, and the
cell must not move. What was chosen gets there by `mnemon tune --row ROW --keep` alone. A line names every
option of the method and its loss, so that no recipe that is chosen anew moves a row.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.experiments import protocol

PATH = Path(__file__).with_name("beyond.json")

Name = tuple[str, str]  # row, stream: split-cifar100 for any number of tasks, as recipes have it


class Chosen(NamedTuple):
    """What validation chose for a row on a stream: values of options, the classifier, and on what, in words."""

    values: dict[str, Any]
    classifier: str
    source: str


def chosen(row: str, stream: str) -> Chosen | None:
    """What a search on this kind of stream chose; None where none was made."""
    name = protocol.parse(stream)
    return lines().get((row, f"{name.kind}-{name.dataset}"))


def keep(row: str, stream: str, choice: Chosen) -> None:
    """Put one line into the file, or another in its place; the other lines stay as they are."""
    name = protocol.parse(stream)
    try:
        with FileLock(PATH.with_suffix(".lock")):
            lines.cache_clear()
            every = lines() | {(row, f"{name.kind}-{name.dataset}"): choice}
            text = ",\n".join(
                json.dumps({"row": of, "stream": on, **each._asdict()}, ensure_ascii=False)
                for (of, on), each in sorted(every.items(), key=lambda item: item[0])
            )
            files.write(PATH, f"[\n{text}\n]\n".encode())
    except OSError as error:
        raise MnemonError(
            f"the settings in {PATH} cannot be written ({error.strerror}): keep values in a source checkout of mnemon."
        ) from None
    lines.cache_clear()


@lru_cache(maxsize=1)
def lines() -> dict[Name, Chosen]:
    """All lines by row and stream."""
    try:
        return {
            (line["row"], line["stream"]): Chosen(dict(line["values"]), str(line["classifier"]), str(line["source"]))
            for line in files.parsed(PATH.read_bytes())
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MnemonError(f"the settings in {PATH} cannot be read ({error}).") from None
