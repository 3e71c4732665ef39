"""What happened to a served model lately, numbered, for those who watch it."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections import deque
from typing import Any

MOST = 1000


class Log:
    """Any thread may add and read. The oldest events are dropped: a reader that is too slow misses some."""

    def __init__(self) -> None:
        self.boot = secrets.token_hex(4)  # numbers begin anew with each start
        self._lock, self._numbers = threading.Lock(), itertools.count(1)
        self._events: deque[dict[str, Any]] = deque(maxlen=MOST)

    def add(self, kind: str, **more: Any) -> None:
        with self._lock:
            self._events.append({"id": next(self._numbers), "event": kind, "time": round(time.time(), 3), **more})

    def after(self, number: int) -> list[dict[str, Any]]:
        with self._lock:
            return [event for event in self._events if event["id"] > number]
