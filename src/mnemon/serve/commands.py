"""What other threads ask a thread to do, in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from mnemon.errors import MnemonError
from mnemon.serve.events import JournalFailed


class Commands:
    """`wake` is the condition that the thread waits for."""

    def __init__(self, wake: threading.Condition) -> None:
        self._wake = wake
        self._queue: deque[Callable[[], None]] = deque()
        self._over: str | None = None  # why the thread does nothing any more

    def __bool__(self) -> bool:
        return bool(self._queue)

    def ask(self, action: Callable[[], Callable[[], None]]) -> Future[None]:
        """Have `action` done by the thread; what it returns is done after the answer."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # the caller may leave; what is begun is done

        def command() -> None:
            try:
                if self._over is not None:
                    raise JournalFailed(self._over)
                after = action()
            except MnemonError as error:
                done.set_exception(error)
                return
            except Exception as error:
                done.set_exception(error)
                raise
            done.set_result(None)
            after()

        with self._wake:
            over = self._over is not None
            if not over:
                self._queue.append(command)
                self._wake.notify_all()
        if over:
            command()
        return done

    def take(self) -> Callable[[], None] | None:
        """The next one; to be called with the condition's lock held."""
        return self._queue.popleft() if self._queue else None

    def end(self, why: str) -> str:
        """Refuse those that wait and all to come, for the first reason given, which is returned."""
        with self._wake:
            self._over = over = self._over or why
            commands, self._queue = self._queue, deque()
        for command in commands:
            command()  # it finds that nothing can be done
        return over
