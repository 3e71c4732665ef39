"""Files nobody meant to be there: hidden ones, and what file managers leave in the folders they show."""

from __future__ import annotations


def is_clutter(name: str) -> bool:
    return name.startswith(".") or name.lower() in ("thumbs.db", "desktop.ini")
