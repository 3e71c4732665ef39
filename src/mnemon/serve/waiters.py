"""Futures of callers that wait until so many samples are learned, or published."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from mnemon.serve.events import JournalFailed


class _Waiter(NamedTuple):
    """Waits until the samples up to `position` are learned; with `published`, until predictions use them."""

    position: int
    published: bool
    done: Future[None]


class Waiters:
    """`reached` says how many samples are learned or, asked with True, published. Any thread may wait and tell."""

    def __init__(self, reached: Callable[[bool], int]) -> None:
        self._reached, self._lock = reached, threading.Lock()
        self._waiters: list[_Waiter] = []
        self._over: str | None = None  # why no more will be learned

    def add(self, position: int, *, published: bool) -> Future[None]:
        waiter = _Waiter(position, published, Future())
        with self._lock:
            self._waiters.append(waiter)
        self.tell()
        if self._over is not None:
            self.end(self._over)
        return waiter.done

    def tell(self) -> None:
        """Answer those whose samples are reached."""
        reached = {published: self._reached(published) for published in (True, False)}
        with self._lock:
            done = [each for each in self._waiters if each.position <= reached[each.published]]
            rest = [each for each in self._waiters if each.position > reached[each.published]]
            self._waiters = [each for each in rest if not each.done.cancelled()]
        for waiter in done:
            if waiter.done.set_running_or_notify_cancel():
                waiter.done.set_result(None)

    def end(self, why: str) -> None:
        """Answer all, now and later: no more will be learned."""
        with self._lock:
            self._over = why
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done.set_running_or_notify_cancel():
                waiter.done.set_exception(JournalFailed(why))
