"""Results of other threads, brought to the event loop: one wake-up for all that are done at once, as those of a transaction."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Landing:
    """Of one event loop. What is done in between lands with what was done before."""

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._called = False  # the loop will look

    async def of(self, future: Future[T]) -> T:
        """Its result. A caller who leaves cancels nothing: what is begun is done."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()

        def done(future: Future[T]) -> None:
            self._done.append((waiting, future))
            if not self._called and not loop.is_closed():
                self._called = True
                loop.call_soon_threadsafe(self._land)

        future.add_done_callback(done)
        return await waiting

    def _land(self) -> None:
        self._called = False  # first: what is done from here on calls again
        while self._done:
            waiting, future = self._done.popleft()
            if waiting.done():  # cancelled
                continue
            if (error := future.exception()) is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(future.result())
