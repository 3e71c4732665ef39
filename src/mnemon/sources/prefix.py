"""What was read of a file, as one number that rises: the byte behind the last row, and a checksum.

A journal keeps one number for a file. The checksum says on the next start whether the file is still the one that was read. It
is of the first and the last bytes that were read, so that it costs the same however long the file is.
"""

from __future__ import annotations

import zlib
from typing import BinaryIO

from mnemon.errors import MnemonError

ENDS = 4096  # bytes at each end that are checked
CHECK = 22  # bits of the check: a number has 63
LARGEST = 2 ** (63 - CHECK)  # bytes of a file


class Prefix:
    """The first `at` bytes of a file; more are added as lines are taken."""

    def __init__(self) -> None:
        self.at = 0
        self._first = self.last = b""

    def add(self, content: bytes) -> None:
        self.at += len(content)
        if len(self._first) < ENDS:
            self._first = (self._first + content)[:ENDS]
        self.last = (self.last + content)[-ENDS:]

    @property
    def number(self) -> int:
        if self.at >= LARGEST:
            raise MnemonError(f"a file with more than {LARGEST:,} bytes cannot be read.")
        return self.at << CHECK | zlib.crc32(self.last, zlib.crc32(self._first)) & (1 << CHECK) - 1 if self.at else 0

    @classmethod
    def read(cls, file: BinaryIO, at: int) -> Prefix:
        """The first `at` bytes of a file, or all of a shorter one."""
        found = cls()
        file.seek(0)
        found._first = file.read(min(ENDS, at))
        start = max(0, at - ENDS)
        file.seek(start)
        found.last = file.read(at - start)
        found.at = start + len(found.last)
        return found


def byte(number: int) -> int:
    """How many bytes were read, by the number."""
    return number >> CHECK
