"""Options that say what the columns of a table are; `fit`, `predict` and `evaluate` have them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mnemon.cli.options import unset
from mnemon.errors import MnemonError

if TYPE_CHECKING:
    from mnemon.readers.columns import Columns

BEFORE = "as for the model's tables before"
NAMES = "--label, --labels, --id, --ignore, --category, --missing and --separator"
Label = Annotated[str | None, unset("the column of a table that holds the labels", "COLUMN", BEFORE)]
Labels = Annotated[
    Path | None, unset("the .npy file of labels that belongs to x.npy; an .npz file has x and y", "FILE")
]
Id = Annotated[str | None, unset("a column that names the row; not a feature", "COLUMN")]
Ignore = Annotated[tuple[str, ...], unset("columns that are not features", "COLUMN …")]
Category = Annotated[
    tuple[str, ...], unset("columns of categories that look like numbers, such as postal codes", "COLUMN …", BEFORE)
]
Missing = Annotated[
    tuple[str, ...],
    unset(
        "texts of a CSV file that are missing values, as an empty cell always is",
        "TEXT …",
        "as before; at first NA, N/A, nan, NaN, null, NULL, None",
    ),
]
Separator = Annotated[
    str | None,
    unset("what separates the cells of a CSV file: a character, or tab", "CHARACTER", "comma, or as the header shows"),
]


def columns(
    label: str | None,
    id: str | None,
    ignore: tuple[str, ...],
    category: tuple[str, ...],
    missing: tuple[str, ...],
    separator: str | None,
) -> Columns:
    from mnemon.readers.columns import Columns

    between = "\t" if separator in ("tab", "\\t") else separator
    if between is not None and (len(between) != 1 or between in '"\r\n'):
        raise MnemonError(f"--separator is one character, or tab, not {separator!r}.")
    return Columns(label, id, ignore, category, missing or None, between)
