"""Cells of a CSV file, which are all text, as values."""

from __future__ import annotations

from typing import Any


def value(text: str) -> Any:
    """A number is a float, an empty cell a missing value, any other text a text."""
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return text if "_" in text else number  # Python reads 1_000 as a number, and nobody else does
