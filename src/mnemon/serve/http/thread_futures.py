"""Brings results of other threads to the event loop, with one wake-up for all results that are ready, such as the
acknowledgements of one transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadFutures:
    """Futures of other threads that one event loop awaits. Those that finish before the loop looks share a wake-up."""

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._called = False  # whether the loop has been told to look

    async def result(self, future: Future[T]) -> T:
        """Wait for the result of `future`. A caller that is cancelled does not cancel the future."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()

        def done(future: Future[T]) -> None:
            self._done.append((waiting, future))
            if not self._called and not loop.is_closed():
                self._called = True
                loop.call_soon_threadsafe(self._deliver)

        future.add_done_callback(done)
        return await waiting

    def _deliver(self) -> None:
        self._called = False  # before the look: a future that finishes from here on tells the loop again
        while self._done:
            waiting, future = self._done.popleft()
            if waiting.done():  # its caller was cancelled
                continue
            if (error := future.exception()) is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(future.result())
