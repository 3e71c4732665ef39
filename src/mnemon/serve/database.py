"""The SQLite file of a journal: made whole, opened by one process, refused when it is damaged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.serve import wal

VERSION = 1
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,    -- one order for all kinds
    kind TEXT NOT NULL,
    position INTEGER NOT NULL,  -- samples acknowledged so far, with this event
    samples INTEGER NOT NULL,   -- in this event
    payload BLOB NOT NULL,
    crc INTEGER NOT NULL        -- of all of the above
);
CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL, digest BLOB NOT NULL, position INTEGER NOT NULL, samples INTEGER NOT NULL, lasting INTEGER NOT NULL
);
CREATE TABLE producers (name TEXT PRIMARY KEY, count INTEGER NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE kept (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, payload BLOB NOT NULL, crc INTEGER NOT NULL);
"""


def create(path: Path, meta: dict[str, Any]) -> None:
    """A journal without events. It is moved into place when it is whole: an empty file is never taken for a new journal."""
    if (log := _log_of(path)).exists():  # SQLite would read it into the new database
        raise MnemonError(
            f"{log} belongs to a journal that is not there: bring {path.name} back, or move the log away, too, to go on with "
            "the last snapshot alone."
        )

    def fill(part: Path) -> None:
        db = sqlite3.connect(part, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = OFF")  # a file that was not finished is thrown away
            db.executescript(SCHEMA)
            db.executemany(
                "INSERT INTO meta VALUES (?, ?)", [(name, json.dumps(value)) for name, value in meta.items()]
            )
            db.execute(f"PRAGMA user_version = {VERSION}")
        except sqlite3.Error as error:
            raise MnemonError(f"the journal {path} cannot be made ({error}).") from None
        finally:
            db.close()

    with files.explained(f"the journal {path} cannot be made"):
        files.replace(path, fill, mode=0o600)  # it holds what users sent


def opened(path: Path) -> sqlite3.Connection:
    """The database, whole and locked for this process."""
    if wal.is_damaged(_log_of(path)):
        raise damaged(path, "its write-ahead log is broken in the middle")
    db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        # First: the log then needs no shared memory, and nobody else reads.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        # What is deleted is overwritten: it may be what somebody asked to be deleted.
        db.execute("PRAGMA secure_delete = ON")
        _check(db, path)
    except UnicodeDecodeError as error:  # of SQLite's message, which quotes a damaged schema
        db.close()
        raise damaged(path, error) from None
    except sqlite3.Error as error:
        db.close()
        if "locked" in str(error):
            raise MnemonError(f"another process has the journal {path} open.") from None
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise MnemonError(f"the journal {path} cannot be written ({error}).") from None
        raise damaged(path, error) from None
    except MnemonError:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")  # a disk that is read-only says so here
    db.execute("COMMIT")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise MnemonError(f"the journal {path} was written by a newer mnemon (format {version}): update mnemon.")
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok" or version < 1:
        raise damaged(path, found if found != "ok" else "it is empty")


def damaged(path: Path, why: object) -> MnemonError:
    reason = " ".join(str(why).split())
    return MnemonError(
        f"the journal {path} is damaged ({reason}), so samples that were acknowledged would be missing: nothing was started. "
        "Bring back the file from a copy, or move it away (and the file with -wal behind its name) to go on with the last "
        "snapshot alone."
    )


def _log_of(path: Path) -> Path:
    """SQLite's write-ahead log."""
    return path.with_name(path.name + "-wal")
