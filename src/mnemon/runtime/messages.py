"""Messages are logged under "mnemon", in the logger of the module; the command line prints them.

A library adds no handler: Python then prints warnings, and nothing else, on stderr, until the user configures `logging`.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

ROOT = logging.getLogger("mnemon")


class _Lines(logging.Handler):
    """Prints the text alone. The stderr of the moment: while bars are shown, rich's own, which prints above them."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


@contextlib.contextmanager
def printed(*, quiet: bool = False) -> Iterator[None]:
    """Within, print messages on stderr; if quiet, not even warnings. Those of Python's `warnings` are messages too: the text
    alone, without the line of code that made it."""

    def show(message: Warning | str, *about: Any) -> None:
        ROOT.warning(str(message))

    before = warnings.showwarning
    warnings.showwarning = show  # type: ignore[assignment]
    try:
        with handled_by(logging.NullHandler() if quiet else _Lines()):
            yield
    finally:
        warnings.showwarning = before


@contextlib.contextmanager
def handled_by(handler: logging.Handler) -> Iterator[None]:
    """Within, pass messages from INFO on to this handler."""
    level = ROOT.level
    ROOT.addHandler(handler)
    ROOT.setLevel(logging.INFO)
    try:
        yield
    finally:
        ROOT.setLevel(level)
        ROOT.removeHandler(handler)
