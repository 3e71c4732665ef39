"""When a snapshot is due: before a restart would take too long, before the journal is too large, and once a day in any case."""

from __future__ import annotations

import math
import time

REPLAY = 0.5  # of the time for recovery, for learning again; the rest is for reading and checking the journal
JOURNAL_BYTES = 256 * 2**20  # learned since the last snapshot: more would make the journal large
WITHIN = 24 * 3600.0  # seconds; more often would leave less that can be retracted from a network
SAVE_SHARE = 0.1  # of the time, at most
RETRY = 60.0  # seconds after a snapshot that could not be written


class Schedule:
    """`recovery`: seconds a restart may take; `replayed`: seconds the start took to learn what the last snapshot lacked."""

    def __init__(self, recovery: float, replayed: float) -> None:
        self._recovery = recovery
        self._seconds, self._bytes = replayed, 0  # learned since the last snapshot
        self._by, self._not_before = math.inf, 0.0

    def learned(self, seconds: float, count: int) -> None:
        """A chunk of `count` bytes was learned in so many seconds."""
        self._seconds += seconds
        self._bytes += count
        self.changed()

    def changed(self) -> None:
        """The state is no longer that of the last snapshot."""
        self._by = min(self._by, time.monotonic() + WITHIN)

    @property
    def is_needed(self) -> bool:
        """Whether a snapshot would add anything to those there are."""
        return self._by < math.inf

    def until(self) -> float | None:
        """Seconds until a snapshot is due; None: none is needed."""
        if not self.is_needed:
            return None
        much = self._seconds > REPLAY * self._recovery or self._bytes > JOURNAL_BYTES
        return max(max(0.0 if much else self._by, self._not_before) - time.monotonic(), 0.0)

    def saved(self, seconds: float) -> None:
        """A snapshot was written in so many seconds."""
        self._seconds, self._bytes, self._by = 0.0, 0, math.inf
        self._not_before = time.monotonic() + seconds * (1 / SAVE_SHARE - 1)

    def failed(self) -> None:
        """A snapshot could not be written."""
        self._not_before = time.monotonic() + RETRY
