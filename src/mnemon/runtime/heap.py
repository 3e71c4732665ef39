"""Memory that was freed goes back to the system. glibc keeps it in pieces: a process that copies weights for months grows."""

from __future__ import annotations

import contextlib
import ctypes
import sys


def trim() -> None:
    """Give back what is free; where the C library offers no way, do nothing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # musl has no malloc_trim
            ctypes.CDLL(None).malloc_trim(0)
