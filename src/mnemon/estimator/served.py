"""What a model's folder says about being served: the journal's file, the process that has it, samples not learned yet.

`mnemon.serve` writes these; code that loads the model as a folder must know of them.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

JOURNAL = "journal.sqlite"
OWNER = ".owner"  # who holds the folder's lock, in words
NOTE = "served"  # saved beside the model: [last event taken in, samples taken in, number of the checkpoint]


def claim(folder: Path, name: str) -> None:
    """Note who has the folder; to be called with its lock held."""
    with contextlib.suppress(OSError):
        (folder / OWNER).write_text(f"{os.getpid()} {name}")


def owner(folder: Path) -> str:
    """Who has the folder, as far as that is known; to be asked when its lock is held."""
    try:
        number, _, name = (folder / OWNER).read_text().partition(" ")
        os.kill(int(number), 0)  # one that was killed could not take its note away
    except (OSError, ValueError, OverflowError):
        return "another process"
    return f"{name} (process {number})"


@contextlib.contextmanager
def reading(journal: Path) -> Iterator[sqlite3.Connection]:
    """The journal, for reading only: a connection that may write moves the write-ahead log into the database when it closes,
    and drops what lies behind a damaged place in it, which only opening the model looks for."""
    uri = f"{journal.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=0)) as db:
        yield db


def warn_of_unlearned(path: str | os.PathLike[str], beside: dict[str, Tensor]) -> None:
    """Say it if the journal holds acknowledged samples that this state of the model has not learned."""
    journal, note = Path(path) / JOURNAL, beside.get(NOTE)
    if not journal.is_file():
        return
    learned = int(note[1]) if note is not None and note.shape == (3,) else None
    try:
        with reading(journal) as db:
            (position,) = db.execute("SELECT MAX(position) FROM events").fetchone()
            (start,) = db.execute("SELECT value FROM meta WHERE name = 'start'").fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if "locked" in str(error):
            warnings.warn(
                f"the model {path} is being served: this is its last snapshot, without what it learned since.",
                stacklevel=3,
            )
        return  # `mnemon serve` says what is wrong with it
    missing = (int(start) if position is None else position) - (int(start) if learned is None else learned)
    if missing > 0:
        warnings.warn(
            f"{missing:,} samples that were acknowledged for {path} are in its journal and not learned yet; "
            "`mnemon serve` or `mnemon learn` learns them.",
            stacklevel=3,
        )
