"""SIGINT and SIGTERM as a wish to stop at the next step, with everything saved."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Container, Iterator
from types import FrameType
from typing import Any


class Stopped(Exception):
    """A signal came, and everything is saved."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal.Signals(signal_number).name)
        self.signal_number = signal_number


@contextlib.contextmanager
def watched(*, once: Container[int] = ()) -> Iterator[Callable[[], int]]:
    """Within, a signal only leaves its number (0: none came); a second one of the kind acts as usual, or changes nothing
    where it is among those to be taken `once`."""
    came = [0]
    old: dict[int, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        came[0] = number
        signal.signal(number, signal.SIG_IGN if number in once else old[number])

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            old[number] = signal.getsignal(number)  # first: one may come as soon as `note` is set
            signal.signal(number, note)
    except ValueError:  # not in the main thread: signals are somebody else's business
        old.clear()
    try:
        yield lambda: came[0]
    finally:
        for caught, handler in old.items():
            signal.signal(caught, handler)
