"""Whether SQLite's write-ahead log was damaged in its middle.

SQLite stops reading the log at the first frame whose checksum is wrong and takes what follows for the rest of a transaction
that was never finished. That is right after a crash. After damage (a flipped bit) it would drop transactions that were
acknowledged, without a word. With `synchronous=FULL` a transaction is on the disk before the next one is written, so two
or more commits behind a wrong frame cannot come from a crash. Damage within the very last transaction cannot be told from
one that a power failure cut off.
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEADER, FRAME = 32, 24  # bytes before the first frame, and before the page of each
MAGIC = {0x377F0682: "<u4", 0x377F0683: ">u4"}  # how the words of the checksum are read


def is_damaged(path: Path) -> bool:
    """Whether the log at `path` holds commits that SQLite would drop and a crash cannot explain."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    if len(content) < HEADER + FRAME:
        return False  # nothing was ever committed to it
    magic, _, page, _ = struct.unpack_from(">4I", content)
    if magic not in MAGIC or page < 512 or page > 65536:
        return True
    order = MAGIC[magic]
    sums = _checksum(content[:24], order, (0, 0))
    if struct.pack(">2I", *sums) != content[24:32]:
        return True
    salts, whole, commits = content[16:24], True, 0
    for at in range(HEADER, len(content) - FRAME - page + 1, FRAME + page):
        head = content[at : at + FRAME]
        if whole:
            sums = _checksum(head[:8] + content[at + FRAME : at + FRAME + page], order, sums)
            whole = head[8:16] == salts and head[16:] == struct.pack(">2I", *sums)
        if not whole and head[8:16] == salts and head[4:8] != b"\0\0\0\0":  # a commit states the size of the database
            commits += 1
    return commits > 1


def _checksum(content: bytes, order: str, start: tuple[int, int]) -> tuple[int, int]:
    """SQLite's: for each pair of words (a, b), s0 += a + s1 and s1 += b + s0, modulo 2³².

    That is s ← M s + (a, a + b) with M = [[1, 1], [1, 2]], so all pairs are added up at once with the powers of M.
    """
    pairs = np.frombuffer(content, order).astype(np.uint32).reshape(-1, 2)
    given = np.stack([pairs[:, 0], pairs[:, 0] + pairs[:, 1]], 1)  # [n, 2]
    powers = _powers(len(pairs))  # [n + 1, 2, 2], the highest first
    total = (powers[0] @ np.array(start, np.uint32)) + (powers[1:] * given[:, None, :]).sum((0, 2), dtype=np.uint32)
    return int(total[0]), int(total[1])


@cache
def _powers(n: int) -> NDArray[np.uint32]:
    """M^n, …, M, 1 modulo 2³²."""
    power, found = (1, 0, 0, 1), []
    for _ in range(n + 1):
        found.append(power)
        a, b, c, d = power
        power = ((a + c) % 2**32, (b + d) % 2**32, (a + 2 * c) % 2**32, (b + 2 * d) % 2**32)
    return np.array(found[::-1], np.uint32).reshape(-1, 2, 2)
