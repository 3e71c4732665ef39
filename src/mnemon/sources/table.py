"""Rows of a table: which column is the label, and features as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mnemon.errors import MnemonError

LABELS = ("label", "y", "class", "target")  # columns that are taken for the label where none is named


def label_column(columns: list[str], named: str | None) -> str:
    """The column with the labels."""
    if named is not None:
        if named not in columns:
            raise MnemonError(f"there is no column {named!r}; there are {', '.join(map(repr, columns[:20]))}.")
        return named
    found = [name for name in LABELS if name in columns]
    if not found:
        raise MnemonError(
            f"no column is called {', '.join(LABELS[:-1])} or {LABELS[-1]}; say which one is the label: --label."
        )
    return found[0]


def sample(row: Mapping[str, Any], label: str) -> tuple[dict[str, float], Any]:
    """The features of a row as numbers, and its label; text that is a number counts as one."""
    if label not in row:
        raise MnemonError(f"there is no {label!r}.")
    return {name: _number(name, value) for name, value in row.items() if name != label}, row[label]


def _number(name: str, value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise MnemonError(f"the feature {name!r} is {str(value)[:50]!r}, which is no number.") from None
    if not math.isfinite(found):
        raise MnemonError(f"the feature {name!r} is not finite.")
    return found
