"""Whether a model's journal holds samples that its newest snapshot has not learned; the model itself is not loaded."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import safetensors

from mnemon import checkpoint
from mnemon.estimator.saving import BESIDE
from mnemon.estimator.served import JOURNAL, NOTE, reading


def has_unlearned_samples(folder: Path) -> bool:
    """Look without opening the model, which no other process may have open. True if the files cannot be read, since opening
    the model then says what is wrong."""
    journal, number = folder / JOURNAL, checkpoint.newest(folder)
    if not journal.is_file():
        return False
    try:
        with reading(journal) as db:
            (position,) = db.execute("SELECT MAX(position) FROM events").fetchone()
        if number == 0 or position is None:
            return position is not None
        with safetensors.safe_open(folder / f"{number:010d}.safetensors", framework="pt") as file:
            learned = int(file.get_tensor(f"{BESIDE}{NOTE}")[1])
    except (sqlite3.Error, UnicodeDecodeError, OSError, safetensors.SafetensorError):
        return True
    return bool(position > learned)
