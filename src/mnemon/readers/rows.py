"""A row of a table as features, label and identifier; or why it is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from mnemon.readers.columns import Columns

Row = dict[str, Any]


class Sample(NamedTuple):
    x: Row  # its features
    y: Any  # as it stands in the table; None where none was asked for
    id: Any


def sample(row: Mapping[str, Any], columns: Columns, *, labelled: bool, texts: bool = False) -> Sample | str:
    """The row by its columns; a sentence if it cannot be learned or, not `labelled`, predicted. `texts`: it is of a CSV
    file, where a text may stand for a missing value."""
    others = columns.others
    features = {column: value for column, value in row.items() if column not in others}
    for column, value in () if texts else features.items():
        if type(value) is Decimal:  # of a database, by way of Parquet
            features[column] = float(value)
        elif not is_value(value):
            return (
                f"{column!r} holds a value of type {type(value).__name__}, and a feature is a number, a text or empty; "
                f"mnemon fit leaves the column out with --ignore {column}"
            )
    label = None
    if labelled:
        label = None if columns.label is None else row.get(columns.label)
        label = float(label) if type(label) is Decimal else label
        if label is None or label == "" or (isinstance(label, float) and math.isnan(label)):
            return f"there is no label in {columns.label!r}"
        if texts and label in columns.absent:
            return (
                f"there is no label in {columns.label!r}, where {label!r} is a missing value (--missing changes that)"
            )
    return Sample(features, label, None if columns.id is None else row.get(columns.id))


def is_value(value: Any) -> bool:
    """Whether it may be a feature: a number that a float can hold, a text, or nothing."""
    if type(value) is int:
        return -(2**1023) < value < 2**1023
    return value is None or type(value) in (float, str, bool)


def nested(row: Mapping[str, Any]) -> str | None:
    """The sentence about a row of JSON that is no row of a table."""
    name = next((name for name, value in row.items() if isinstance(value, dict | list)), None)
    if name is None:
        return None
    return f"{name!r} is nested; each field of a row is a number, a text, true, false or null"
