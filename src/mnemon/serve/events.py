"""What a journal holds, and what can go wrong with it."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from mnemon.errors import MnemonError

SAMPLES, CUT, REFUSED, RETRACTED, STARTED = "samples", "cut", "refused", "retracted", "started"
PRUNED = "pruned"  # all events before it were deleted: it holds the position


class JournalFailed(MnemonError):
    """Nothing can be written any more; what was acknowledged stays."""


class NoSpace(MnemonError):
    """The disk is full: this request was rolled back, a later one may succeed."""


class KeyReused(MnemonError):
    """A key came again with other content."""


class Event(NamedTuple):
    seq: int
    kind: str
    position: int
    samples: int
    payload: bytes


class Draft(NamedTuple):
    """What is to become an event."""

    kind: str
    payload: bytes
    samples: int = 0
    key: bytes | None = None
    digest: bytes = b""  # of the content: a key that comes again must come with the same
    lasting: bool = False
    producer: str | None = None
    number: int = 0  # the producer's own count; those up to the last one it sent are known
    follows: int | None = None  # the count before this one: where it did not come, this is refused too


class Ack(NamedTuple):
    position: int  # of the model's samples, up to and with these
    samples: int
    repeated: bool = False  # it was acknowledged before
    named: bool = True  # the position is that of these samples; else of later ones of the same producer


def crc_of(event: Event) -> int:
    head = f"{event.seq} {event.kind} {event.position} {event.samples} "
    return zlib.crc32(event.payload, zlib.crc32(head.encode()))
