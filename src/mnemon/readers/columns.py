"""Which columns of a table are what, and what a header may be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mnemon.errors import MnemonError, unknown

SHOWN = 20  # names of columns in a sentence
MISSING = ("NA", "N/A", "nan", "NaN", "null", "NULL", "None")  # texts that are missing values, beside the empty one
UNTIL_0_2 = ("nan", "NaN", "NAN")  # what models that do not state it took for missing


class Columns(NamedTuple):
    """What the columns of a table are, and how their cells are read; the rest are features by what they hold."""

    label: str | None = None
    id: str | None = None  # names the row in what is written
    ignore: tuple[str, ...] = ()
    category: tuple[str, ...] = ()  # features that are categories though they look like numbers: postal codes
    missing: tuple[str, ...] | None = None  # texts of a CSV file that are missing values; None: MISSING
    separator: str | None = None  # of the cells of a CSV file; None: by its name and its header
    strip: bool = True  # whether blanks around the names in a header are no part of them

    @property
    def others(self) -> frozenset[str]:
        """All that are no features."""
        return _others(self.label, self.id, self.ignore)

    @property
    def absent(self) -> frozenset[str]:
        """The texts of a CSV file that are missing values; the empty one always is."""
        return _absent(MISSING if self.missing is None else self.missing)


NONE = Columns()


@lru_cache(maxsize=64)
def _others(label: str | None, id: str | None, ignore: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name for name in (label, id, *ignore) if name is not None)


@lru_cache(maxsize=64)
def _absent(missing: tuple[str, ...]) -> frozenset[str]:
    return frozenset(("", *missing))


def header(names: Sequence[str], path: object, *, strip: bool = True) -> list[str]:
    """The names of the columns, each there and each once."""
    found = [name.strip() for name in names] if strip else list(names)
    if not found or found == [""]:
        raise MnemonError(f"{path} begins with an empty line; it needs a header with the names of its columns.")
    for place, name in enumerate(found, 1):
        if name == "":
            raise MnemonError(
                f"column {place} of {path} has no name; give it one, or leave it out if it is a row number (pandas: "
                "to_csv(…, index=False))."
            )
        if found.index(name) + 1 < place:
            raise MnemonError(
                f"two columns of {path} are called {name!r}; the first line gives each column a name of its own."
            )
    return found


def check_columns(columns: Columns, names: Sequence[str], path: object) -> None:
    """Refuse columns that are asked for and not there; a label need not be there to predict."""
    for column in (columns.id, *columns.ignore, *columns.category):
        if column is not None and column not in names:
            raise unknown(f"column of {path}:", column, names)


def check_label(columns: Columns, names: Sequence[str], path: object) -> None:
    """Refuse to learn or evaluate a table without the column of its labels."""
    shown = ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
    if columns.label is None:
        raise MnemonError(f"which column of {path} has the labels? Give --label COLUMN; there are: {shown}.")
    if columns.label not in names:
        raise unknown(f"column of {path}:", columns.label, names)


def separator(line: str, usual: str) -> str:
    """The separator of a file with this header: the usual one, unless that makes one cell of it and `;` or a tab more."""
    if usual in line:
        return usual
    return max((usual, ";", "\t", ","), key=lambda each: (line.count(each), each == usual))


def separated(path: object, found: str) -> str:
    """The sentence about a separator that is not the usual one."""
    name = "a tab" if found == "\t" else repr(found)
    return f"the cells of {path} are separated by {name}, as its header shows."
