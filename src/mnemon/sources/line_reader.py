"""Lines as bytes, from a file that may grow, be rotated or be cut off while it is read, and from a pipe."""

from __future__ import annotations

import contextlib
import io
import os
import select
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import BinaryIO

from mnemon.errors import MnemonError
from mnemon.sources.prefix import ENDS, Prefix

LOOK = 0.2  # seconds between two looks at what may grow
SETTLED = 5  # looks without a new byte, after which a file that was moved away is taken for finished
LONGEST = 16 * 2**20  # bytes of a line
CHUNK = 2**18  # bytes that are read at once


class LineReader(ABC):
    """An iterator of lines; None while there is no whole line. `prefix` is what was read."""

    def __init__(self) -> None:
        self.prefix = Prefix()
        self._buffer, self._from = b"", 0
        self._count, self._skipped, self._ended = 0, False, False

    @property
    def where(self) -> str:
        return f"byte {self.prefix.at:,}" if self._skipped else f"line {self._count:,}"

    @property
    def rest(self) -> bytes:
        """What was read behind the last line: half a line."""
        return self._buffer[self._from :]

    def __iter__(self) -> LineReader:
        return self

    def __next__(self) -> bytes | None:
        while not self._ended:
            end = self._buffer.find(b"\n", self._from) + 1
            if end > 0:
                return self._take(end)
            if len(self.rest) >= LONGEST:
                raise MnemonError(f"line {self._count + 1:,} has more than {LONGEST:,} bytes.")
            chunk = self._more()
            if chunk is None:
                return None
            self._ended = not chunk
            self._buffer, self._from = self.rest + chunk, 0
        if self.rest:  # the last line, which has no end
            return self._take(len(self._buffer))
        raise StopIteration

    def _take(self, end: int) -> bytes:
        line = self._buffer[self._from : end]
        self._from = end
        self._count += 1
        self.prefix.add(line)
        return line

    @abstractmethod
    def _more(self) -> bytes | None:
        """What comes next; nothing at the end, None if there is nothing at the moment."""


class FileReader(LineReader):
    """`follow`: the end of the file is not the end, unless another file has its name or it was cut off; `cut` holds the half
    line that such a file had and has no more."""

    def __init__(self, path: Path, file: io.FileIO, *, follow: bool) -> None:
        super().__init__()
        self._path, self._file, self._follow = path, file, follow
        self._waits, self._quiet = False, 0
        self.cut = b""

    def skip_to(self, prefix: Prefix) -> None:
        if prefix.at > self.prefix.at:
            self._file.seek(prefix.at)
            self._buffer, self._from = b"", 0
            self.prefix, self._skipped = prefix, True

    def _more(self) -> bytes | None:
        if self._waits:  # what was read has been handed on
            time.sleep(LOOK)
            if self._is_cut_off():
                self.cut, self._buffer, self._from = self.rest, b"", 0
                return b""
        chunk = self._file.read(CHUNK)
        self._waits = not chunk and self._follow
        self._quiet = 0 if chunk else self._quiet + 1
        if not self._waits:
            return chunk
        return b"" if self._quiet > SETTLED and self._is_replaced() else None

    def _is_replaced(self) -> bool:
        """Whether another file has the name. One that was moved away may still be written to for a moment."""
        try:
            return not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        except FileNotFoundError:  # the new file is yet to be made
            return False

    def _is_cut_off(self) -> bool:
        """Whether what was read is no longer there: a log that is copied and then emptied."""
        known = (self.prefix.last + self.rest)[-ENDS:]
        end = self.prefix.at + len(self.rest)
        self._file.seek(end - len(known))
        return self._file.read(len(known)) != known


class StreamReader(LineReader):
    """A pipe: it is not waited for longer than a look."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self._told = time.monotonic()
        self._handle: int | None = None
        if os.name != "nt":  # there pipes cannot be waited for
            with contextlib.suppress(OSError, ValueError):  # one in memory has none
                self._handle = stream.fileno()

    def _more(self) -> bytes | None:
        if self._handle is None:
            return self._stream.readline(CHUNK)
        waited = time.monotonic() - self._told
        if waited < LOOK and select.select([self._handle], [], [], LOOK - waited)[0]:
            return os.read(self._handle, CHUNK)
        self._told = time.monotonic()
        return None
