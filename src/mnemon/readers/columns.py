"""Which columns of a table are what, and what a header may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mnemon.errors import MnemonError, unknown

SHOWN = 20  # names of columns in a sentence


class Columns(NamedTuple):
    """Which columns of a table are no features."""

    label: str | None = None
    id: str | None = None  # names the row in what is written
    ignore: tuple[str, ...] = ()

    @property
    def others(self) -> frozenset[str]:
        """All that are no features."""
        return frozenset(name for name in (self.label, self.id, *self.ignore) if name is not None)


NONE = Columns()


def header(names: Sequence[str], path: object) -> list[str]:
    """The names of the columns, each there and each once."""
    if not names:
        raise MnemonError(f"{path} begins with an empty line; it needs a header with the names of its columns.")
    found = list(names)
    for place, name in enumerate(found, 1):
        if name == "":
            raise MnemonError(f"column {place} of {path} has no name; a row number is best left out of the file.")
        if found.index(name) + 1 < place:
            raise MnemonError(f"two columns of {path} are called {name!r}.")
    return found


def check_columns(columns: Columns, names: Sequence[str], path: object) -> None:
    """Refuse columns that are asked for and not there; a label need not be there to predict."""
    for column in (columns.id, *columns.ignore):
        if column is not None and column not in names:
            raise unknown(f"column of {path}:", column, names)


def check_label(columns: Columns, names: Sequence[str], path: object) -> None:
    """Refuse to learn or evaluate a table without the column of its labels."""
    shown = ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
    if columns.label is None:
        raise MnemonError(f"which column of {path} has the labels? Give --label COLUMN; there are: {shown}.")
    if columns.label not in names:
        raise unknown(f"column of {path}:", columns.label, names)
