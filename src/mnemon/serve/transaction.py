"""One transaction of a journal: requests are checked against what the journal holds, collected, then written together."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mnemon.errors import MnemonError
from mnemon.serve.events import Ack, Draft, Event, KeyReused, crc_of

MOST_PRODUCERS = 10_000
KEPT, KEPT_BYTES = 10_000, 256 * 2**20  # predictions that wait for a label, and what they may take together


class KnownKey(NamedTuple):
    digest: bytes
    position: int
    samples: int


class Refused(MnemonError):
    """A request that cannot be taken as it is."""


@dataclass
class Index:
    """What the checks need of a journal, in memory."""

    seq: int
    position: int
    keys: dict[bytes, KnownKey] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)  # name → last count, and its position
    kept: dict[int, int] = field(default_factory=dict)  # id of what is kept, the oldest first → bytes


class Transaction:
    """Collects the events of several requests. `adopt` it when it is on the disk."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._seq, self._position = index.seq, index.position
        self._keys: dict[bytes, KnownKey] = {}
        self._lasting: set[bytes] = set()
        self._producers: dict[str, tuple[int, int]] = {}
        self._kept: list[tuple[str, bytes]] = []
        self._sizes: dict[int, int] | None = None
        self.events: list[Event] = []

    def known(self, key: bytes) -> KnownKey | None:
        return self._keys.get(key) or self._index.keys.get(key)

    def count(self, producer: str) -> tuple[int, int] | None:
        return self._producers.get(producer) or self._index.producers.get(producer)

    @property
    def producers(self) -> int:
        return len(self._producers.keys() | self._index.producers.keys())

    def check(self, drafts: Sequence[Draft]) -> None:
        """Refuse a request before any of it is taken."""
        own: dict[bytes, bytes] = {}
        for draft in drafts:
            if draft.key is not None:
                known = self.known(draft.key)
                if own.setdefault(draft.key, draft.digest if known is None else known.digest) != draft.digest:
                    raise KeyReused(
                        "this key was used before, for a request with other content; each request has its own key."
                    )
            if draft.producer is not None:
                self._check_count(draft.producer, draft)

    def _check_count(self, producer: str, draft: Draft) -> None:
        last = self.count(producer)
        if last is None and self.producers >= MOST_PRODUCERS:
            raise Refused(f"there are {MOST_PRODUCERS:,} producers already, which is the limit.")
        count = 0 if last is None else last[0]
        if draft.follows is not None and draft.number > count != draft.follows:
            raise Refused(
                f"what {producer} sent before this did not come: its count is {count:,}, not {draft.follows:,}."
            )

    def take(self, draft: Draft) -> Ack:
        """The event, or the acknowledgement it had before."""
        if draft.key is not None and (known := self.known(draft.key)) is not None:
            return Ack(known.position, known.samples, repeated=True)
        if draft.producer is not None:
            last = self.count(draft.producer)
            if last is not None and draft.number <= last[0]:
                return Ack(last[1], draft.samples, repeated=True, named=draft.number == last[0])
        self._seq += 1
        self._position += draft.samples
        self.events.append(Event(self._seq, draft.kind, self._position, draft.samples, draft.payload))
        if draft.key is not None:
            self._keys[draft.key] = KnownKey(draft.digest, self._position, draft.samples)
            if draft.lasting:
                self._lasting.add(draft.key)
        if draft.producer is not None:
            self._producers[draft.producer] = (draft.number, self._position)
        return Ack(self._position, draft.samples)

    def keep(self, name: str, payload: bytes) -> None:
        self._kept.append((name, payload))

    def write(self, db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", [(*event, crc_of(event)) for event in self.events]
        )
        rows = [(key, *known, key in self._lasting) for key, known in self._keys.items()]
        db.executemany("INSERT INTO keys (key, digest, position, samples, lasting) VALUES (?, ?, ?, ?, ?)", rows)
        db.executemany(
            "INSERT OR REPLACE INTO producers VALUES (?, ?, ?)", [(n, *at) for n, at in self._producers.items()]
        )
        if self._kept:
            self._write_kept(db)

    def _write_kept(self, db: sqlite3.Connection) -> None:
        """The oldest make room for what is new."""
        sizes = dict(self._index.kept)
        last = max(sizes, default=0)
        for id_, (name, payload) in enumerate(self._kept, last + 1):
            row = (id_, name, payload, zlib.crc32(payload))
            db.execute("INSERT INTO kept (id, name, payload, crc) VALUES (?, ?, ?, ?)", row)
            sizes[id_] = len(payload)
        total, gone = sum(sizes.values()), 0
        while len(sizes) > KEPT or (total > KEPT_BYTES and len(sizes) > 1):
            gone = next(iter(sizes))
            total -= sizes.pop(gone)
        db.execute("DELETE FROM kept WHERE id <= ?", (gone,))
        self._sizes = sizes

    def adopt(self) -> None:
        """Bring the index up to date."""
        index = self._index
        index.seq, index.position = self._seq, self._position
        index.keys |= self._keys
        index.producers |= self._producers
        if self._sizes is not None:
            index.kept = self._sizes
