"""Whether a model's journal holds samples that its newest snapshot has not learned; the model itself is not loaded."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import safetensors

from mnemon import checkpoint
from mnemon.estimator.saving import BESIDE
from mnemon.estimator.served import JOURNAL, NOTE, reading


def is_behind(folder: Path) -> bool:
    """Of a model that no process has; where it cannot be said, True: opening the model says what is wrong."""
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
    except (sqlite3.Error, OSError, safetensors.SafetensorError):
        return True
    return bool(position > learned)
