"""Those who wait until so many samples are learned, or published."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from mnemon.serve.events import JournalFailed


class _Wanted(NamedTuple):
    """Somebody waits until so many samples are learned; `published`: and until predictions know of them."""

    position: int
    published: bool
    done: Future[None]


class Waiting:
    """`reached` says how many samples are learned or, asked with True, published. Any thread may wait and tell."""

    def __init__(self, reached: Callable[[bool], int]) -> None:
        self._reached, self._lock = reached, threading.Lock()
        self._wanted: list[_Wanted] = []
        self._over: str | None = None  # why nobody need wait any more

    def add(self, position: int, *, published: bool) -> Future[None]:
        wanted = _Wanted(position, published, Future())
        with self._lock:
            self._wanted.append(wanted)
        self.tell()
        if self._over is not None:
            self.end(self._over)
        return wanted.done

    def tell(self) -> None:
        """Answer those whose samples are reached."""
        reached = {published: self._reached(published) for published in (True, False)}
        with self._lock:
            done = [wanted for wanted in self._wanted if wanted.position <= reached[wanted.published]]
            self._wanted = [wanted for wanted in self._wanted if wanted not in done and not wanted.done.cancelled()]
        for wanted in done:
            if wanted.done.set_running_or_notify_cancel():
                wanted.done.set_result(None)

    def end(self, why: str) -> None:
        """Answer all, now and later: no more will be learned."""
        with self._lock:
            self._over = why
            wanted, self._wanted = self._wanted, []
        for each in wanted:
            if each.done.set_running_or_notify_cancel():
                each.done.set_exception(JournalFailed(why))
