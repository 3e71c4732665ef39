"""Records: one JSON line for each finished run and classifier in OUT/records.jsonl. A line once written stays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from filelock import FileLock

from mnemon.errors import MnemonError

Record = dict[str, Any]
NAME = "records.jsonl"

# What was read last: a file that has only grown is parsed from there on, lest every finished run cost a look at all others.
_parsed: dict[Path, tuple[bytes, list[Record]]] = {}


def precision(record: Record) -> dict[str, str]:
    """{"precision": …} where a GPU did not compute as it does by default (TF32), else nothing."""
    name = record.get("precision", "tf32")
    return {} if name == "tf32" or record["device"] == "cpu" else {"precision": name}


def computed(record: Record) -> dict[str, Any]:
    """Where and how a run was computed, as its name holds it (`Engine.identity`)."""
    exact = {"deterministic": True} if record.get("deterministic") else {}
    return {"device": record["device"], **precision(record), **exact}


def read(folder: Path) -> list[Record]:
    """All records of a folder, in the order they were finished; [] if there are none."""
    path = Path(folder) / NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None
    text = text[: _whole(text)]
    before, known = _parsed.get(path, (b"", []))
    if not text.startswith(before):  # somebody changed what was there
        before, known = b"", []
    found = list(known)  # a new list: the old one stays whole if a line is no record
    for number, line in enumerate(text[len(before) :].splitlines(), len(known) + 1):
        record = _record(line)
        if record is None:
            raise MnemonError(f"line {number} of {path} is not a record; mend or remove that line.")
        found.append(record)
    if text.endswith(b"\n"):
        _parsed.clear()  # one file: that of the runs under way
        _parsed[path] = text, found
    return [dict(record) for record in found]


def append(folder: Path, records: Iterable[Record]) -> None:
    """Add records that are not there yet; safe against a kill at any moment and against other processes."""
    path = Path(folder) / NAME
    with FileLock(path.with_suffix(".lock")):
        there = {(old["run"], old["classifier"]) for old in read(folder)}
        new = [r for r in records if (r["run"], r["classifier"]) not in there]
        with open(path, "ab") as file:
            text = path.read_bytes()
            whole = _whole(text)
            file.truncate(whole)  # a line that a kill cut short was never acknowledged
            if whole and text[whole - 1 : whole] != b"\n":
                file.write(b"\n")  # a whole last line whose end somebody's editor took away
            file.write(b"".join(json.dumps(r, allow_nan=False).encode() + b"\n" for r in new))
            file.flush()
            os.fsync(file.fileno())


def _whole(text: bytes) -> int:
    """The length of the part that consists of whole records; the last may lack the end of its line."""
    end = text.rfind(b"\n") + 1
    return len(text) if _record(text[end:]) else end


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"run", "classifier"} <= record.keys() else None
