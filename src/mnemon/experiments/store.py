"""A folder of results on the disk: one JSON line for each finished run and classifier in FOLDER/records.jsonl.

A line once written stays. Older records may be packed in FOLDER/records.jsonl.gz, which is read too.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.experiments.record import Record

NAME = "records.jsonl"
ARCHIVE = "records.jsonl.gz"

# What was read last: a file that has only grown is parsed from there on, so that a finished run costs one line, not all.
_parsed: dict[Path, tuple[bytes, list[Record]]] = {}


class ResultFolder:
    """The records of a folder. Any number of processes may read and append at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.records, self.archive = self.path / NAME, self.path / ARCHIVE

    def read(self) -> list[Record]:
        """All records, in the order in which the runs finished; [] if there are none."""
        try:
            text = self.records.read_bytes()
        except FileNotFoundError:
            text = b""
        except NotADirectoryError:
            raise MnemonError(f"{self.path} is a file; name the folder that has {NAME}.") from None
        except OSError as error:
            raise MnemonError(f"{self.records} cannot be read ({error.strerror}).") from None
        text = text[: _whole(text)]
        before, known = _parsed.get(self.records, (b"", []))
        if not text.startswith(before):  # somebody changed what was there
            before, known = b"", []
        found = known + _lines(text[len(before) :], self.records, len(known))
        if text.endswith(b"\n"):
            _parsed.clear()  # one file: that of the runs under way
            _parsed[self.records] = text, found
        # The archive after the plain file: what is packed in between is in both, not in neither.
        if old := self._packed():
            there = {record.identity for record in old}
            found = [record for record in found if record.identity not in there]
        return [Record(record) for record in (*old, *found)]

    def read_some(self) -> list[Record]:
        """All records; a sentence where there are none."""
        if not (found := self.read()):
            command = f"mnemon run --method er --stream split-digits --out {shlex.quote(str(self.path))}"
            raise MnemonError(f"{self.path} holds no records; make some with `{command}`.")
        return found

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records that are not there yet; safe against a kill at any moment and against other processes."""
        with self._lock():
            there = {record.identity for record in self.read()}
            new = [record for record in map(Record, records) if record.identity not in there]
            first = not self.records.exists()
            with open(self.records, "ab") as file:
                text = self.records.read_bytes()
                whole = _whole(text)
                file.truncate(whole)  # a line that a kill cut short was never acknowledged
                if whole and text[whole - 1 : whole] != b"\n":
                    file.write(b"\n")  # a whole last line whose end somebody's editor took away
                file.write(b"".join(json.dumps(record, allow_nan=False).encode() + b"\n" for record in new))
                file.flush()
                os.fsync(file.fileno())
            if first:
                files.flush(self.path)  # the file's name, too

    def pack(self) -> None:
        """Move all records into the archive, a tenth of the size; new ones are appended beside it."""
        with self._lock():
            text = "".join(json.dumps(record, allow_nan=False) + "\n" for record in self.read())
            files.write(self.archive, gzip.compress(text.encode(), mtime=0))  # the same records, the same bytes
            self.records.unlink(missing_ok=True)

    def _lock(self) -> FileLock:
        return FileLock(self.records.with_suffix(".lock"))

    def _packed(self) -> list[Record]:
        """The records of the archive; parsed again only if the file is another."""
        try:
            about = os.stat(self.archive)
            return _unpack(self.archive, about.st_mtime_ns, about.st_size)
        except FileNotFoundError:
            return []
        except (OSError, EOFError, zlib.error) as error:
            raise MnemonError(f"{self.archive} cannot be read ({error}).") from None


@lru_cache(maxsize=1)
def _unpack(path: Path, changed: int, size: int) -> list[Record]:
    return _lines(gzip.decompress(path.read_bytes()), path)


def _lines(text: bytes, path: Path, before: int = 0) -> list[Record]:
    found = []
    for number, line in enumerate(text.splitlines(), before + 1):
        record = _record(line)
        if record is None:
            raise MnemonError(f"line {number} of {path} is not a record; repair or remove that line.")
        try:
            record.check()
        except MnemonError as error:
            raise MnemonError(f"line {number} of {path}: {error}") from None
        found.append(record)
    return found


def _whole(text: bytes) -> int:
    """The length of the part that consists of whole records; the last may lack the end of its line."""
    end = text.rfind(b"\n") + 1
    return len(text) if _record(text[end:]) else end


def _record(line: bytes) -> Record | None:
    try:
        record = files.parsed(line)
    except ValueError:
        return None
    return Record(record) if isinstance(record, dict) and {"run", "classifier"} <= record.keys() else None
