"""Warnings that point to the line that called mnemon, however deep in it they are made."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])
_listening = threading.local()


def warn(sentence: str) -> None:
    """A UserWarning at the first line on the way up that is not mnemon's own; within `heard`, the listener's."""
    listener: Callable[[str], None] | None = getattr(_listening, "to", None)
    if listener is not None:
        listener(sentence)
        return
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(sentence, stacklevel=level)


@contextlib.contextmanager
def heard(listener: Callable[[str], None]) -> Iterator[None]:
    """Within, in this thread alone, pass sentences to the listener. `warnings.catch_warnings` would catch those of all
    threads, and with several threads may leave its own filters behind."""
    before = getattr(_listening, "to", None)
    _listening.to = listener
    try:
        yield
    finally:
        _listening.to = before
