"""Records: one JSON line for each finished run and classifier in OUT/records.jsonl. A line once written stays.

Older ones may lie packed in OUT/records.jsonl.gz (`pack`), which is read too.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from mnemon import files
from mnemon.errors import MnemonError

Record = dict[str, Any]
NAME = "records.jsonl"
ARCHIVE = "records.jsonl.gz"

# What was read last: a file that has only grown is parsed from there on, lest every finished run cost a look at all others.
_parsed: dict[Path, tuple[bytes, list[Record]]] = {}


def precision(record: Record) -> dict[str, str]:
    """{"precision": …} where a GPU did not compute as it does by default (TF32), else nothing."""
    name = record.get("precision", "tf32")
    return {} if name == "tf32" or record.get("device", "cpu") == "cpu" else {"precision": name}


def computed(record: Record) -> dict[str, Any]:
    """Where and how a run was computed, as its name holds it (`Engine.identity`)."""
    exact = {"deterministic": True} if record.get("deterministic") else {}
    return {"device": record["device"], **precision(record), **exact}


def mean_seconds(runs: Iterable[Record]) -> float | None:
    """Of training and testing, over the runs that say; None where none does."""
    found = [sum(run["seconds"].values()) for run in runs if run.get("seconds")]
    return sum(found) / len(found) if found else None


def read(folder: Path) -> list[Record]:
    """All records of a folder, in the order they were finished; [] if there are none."""
    path = Path(folder) / NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        text = b""
    except OSError as error:
        raise MnemonError(f"{path} cannot be read ({error.strerror}).") from None
    text = text[: _whole(text)]
    before, known = _parsed.get(path, (b"", []))
    if not text.startswith(before):  # somebody changed what was there
        before, known = b"", []
    found = known + _lines(text[len(before) :], path, len(known))
    if text.endswith(b"\n"):
        _parsed.clear()  # one file: that of the runs under way
        _parsed[path] = text, found
    # After the plain file: what is packed in between is in both, not in neither.
    if old := _packed(Path(folder) / ARCHIVE):  # a kill while they were packed may have left some in both, too
        there = {(r["run"], r["classifier"]) for r in old}
        found = [r for r in found if (r["run"], r["classifier"]) not in there]
    return [dict(record) for record in (*old, *found)]


def _lines(text: bytes, path: Path, before: int = 0) -> list[Record]:
    found = []
    for number, line in enumerate(text.splitlines(), before + 1):
        record = _record(line)
        if record is None:
            raise MnemonError(f"line {number} of {path} is not a record; mend or remove that line.")
        found.append(record)
    return found


def _packed(path: Path) -> list[Record]:
    """The records of an archive; parsed again only if the file is another."""
    try:
        about = os.stat(path)
        return _unpack(path, about.st_mtime_ns, about.st_size)
    except FileNotFoundError:
        return []
    except (OSError, EOFError, zlib.error) as error:
        raise MnemonError(f"{path} cannot be read ({error}).") from None


@lru_cache(maxsize=1)
def _unpack(path: Path, changed: int, size: int) -> list[Record]:
    return _lines(gzip.decompress(path.read_bytes()), path)


def pack(folder: Path) -> None:
    """Move all records of a folder into its archive, a tenth of the size, where new ones are not appended."""
    path, archive = Path(folder) / NAME, Path(folder) / ARCHIVE
    with FileLock(path.with_suffix(".lock")):
        text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in read(folder))
        files.write(archive, gzip.compress(text.encode(), mtime=0))  # the same records, the same bytes
        path.unlink(missing_ok=True)


def append(folder: Path, records: Iterable[Record]) -> None:
    """Add records that are not there yet; safe against a kill at any moment and against other processes."""
    path = Path(folder) / NAME
    with FileLock(path.with_suffix(".lock")):
        there = {(old["run"], old["classifier"]) for old in read(folder)}
        new = [r for r in records if (r["run"], r["classifier"]) not in there]
        first = not path.exists()
        with open(path, "ab") as file:
            text = path.read_bytes()
            whole = _whole(text)
            file.truncate(whole)  # a line that a kill cut short was never acknowledged
            if whole and text[whole - 1 : whole] != b"\n":
                file.write(b"\n")  # a whole last line whose end somebody's editor took away
            file.write(b"".join(json.dumps(r, allow_nan=False).encode() + b"\n" for r in new))
            file.flush()
            os.fsync(file.fileno())
        if first:
            files.flush(path.parent)  # its name, too


def _whole(text: bytes) -> int:
    """The length of the part that consists of whole records; the last may lack the end of its line."""
    end = text.rfind(b"\n") + 1
    return len(text) if _record(text[end:]) else end


def _record(line: bytes) -> Record | None:
    try:
        record = files.parsed(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"run", "classifier"} <= record.keys() else None
