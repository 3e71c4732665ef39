"""Warnings that point to the line of whoever called mnemon, however deep in it they are made."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])


def warn(sentence: str) -> None:
    """A UserWarning at the first line on the way up that is not mnemon's own."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(sentence, stacklevel=level)
