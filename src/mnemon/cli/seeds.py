"""Seeds as they are written on the command line."""

from __future__ import annotations

from mnemon.errors import MnemonError

MOST = 100_000


def seeds(text: str) -> list[int]:
    """15 → 0 … 14; 100-102 → 100, 101, 102; 3,5 → 3, 5."""
    found: list[int] = []
    try:
        for part in [f"0-{int(text) - 1}"] if text.isdecimal() else text.split(","):
            first, dash, last = part.partition("-")
            numbers = range(int(first), int(last if dash else first) + 1)
            if not 0 < len(numbers) <= MOST:
                raise ValueError
            found += numbers
    except (ValueError, OverflowError):
        raise MnemonError(
            f"seeds are a number of runs (15), a range (100-102) or a list (3,5), not {text!r}."
        ) from None
    return list(dict.fromkeys(found))
