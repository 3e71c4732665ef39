"""The journal of a served model: all that was acknowledged, in one order, in one SQLite file.

An event is durable before it is acknowledged: one connection, `journal_mode=WAL`, `synchronous=FULL`. One thread writes; it
takes all that waits and commits it as one transaction, so that a lone request pays one flush and a crowd shares it.

A request is taken exactly once if it has a key, of which a window of the last ones is kept (`lasting` keys stay for good),
or comes from a producer that counts, of which the last count is kept.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from mnemon.errors import MnemonError
from mnemon.files import parsed
from mnemon.serve import database
from mnemon.serve.events import PRUNED, SAMPLES, Ack, Draft, Event, JournalFailed, KeyReused, NoSpace, crc_of
from mnemon.serve.transaction import Index, KnownKey, Refused, Transaction

logger = logging.getLogger(__name__)
GROUP_REQUESTS, GROUP_BYTES = 1_000, 32 * 2**20  # of one transaction
STEP = 500  # events that are deleted at once
READ = 64  # events that are read at once
KEYS = 100_000  # that are remembered


class _Request(NamedTuple):
    drafts: Sequence[Draft]
    done: Future[list[Ack]]
    kept: tuple[str, bytes] | None = None

    @property
    def size(self) -> int:
        return sum(len(draft.payload) for draft in self.drafts) + (0 if self.kept is None else len(self.kept[1]))


class Journal:
    """`committed` is called with each transaction's new events, in order, by the thread that writes."""

    def __init__(
        self,
        path: Path,
        committed: Callable[[list[Event]], None] = lambda events: None,
        *,
        start: int = 0,
        after: int = 0,
        notes: dict[str, Any] | None = None,
    ) -> None:
        """`start`, `after` and `notes` count for a new journal alone: the samples that the model has learned already, the
        number behind which events are counted, and whatever else the service wants to know of it for good."""
        self.path, self._committed = path, committed
        self.failed: str | None = None  # why nothing can be written any more
        self.commits = 0  # transactions with samples since it was opened, each for all requests that waited
        self._db_lock = threading.Lock()  # one connection, used by one thread at a time
        self._wake = threading.Condition()
        self._waiting: deque[_Request] = deque()
        self._closing, self._prune_to = False, 0
        if not path.exists():
            database.create(path, {"start": start, "pruned": after, "notes": notes or {}})
        self._db = database.opened(path)
        self._file = path.stat()
        try:
            self._read()
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            self._db.close()
            raise database.damaged(path, error) from None
        self._writer = threading.Thread(target=self._write, name=f"journal {path.parent.name}", daemon=True)
        self._writer.start()

    def _read(self) -> None:
        one = self._db.execute
        meta = {name: parsed(value) for name, value in one("SELECT name, value FROM meta")}
        self.notes: dict[str, Any] = meta["notes"]
        self.pruned = int(meta["pruned"])  # the last event that was deleted
        self.start = int(meta["start"])
        seq, position = one("SELECT MAX(seq), MAX(position) FROM events").fetchone()
        keys = one("SELECT key, digest, position, samples FROM keys ORDER BY id")
        producers = one("SELECT name, count, position FROM producers")
        self._index = Index(
            self.pruned if seq is None else int(seq),
            self.start if position is None else int(position),
            {key: KnownKey(digest, at, samples) for key, digest, at, samples in keys},
            {name: (count, at) for name, count, at in producers},
            dict(one("SELECT id, LENGTH(payload) FROM kept ORDER BY id").fetchall()),
        )

    # --- writing

    def append(self, drafts: Sequence[Draft]) -> Future[list[Ack]]:
        """Write these as one: the result comes when they are on the disk, all of them or none."""
        return self._ask(_Request(drafts, Future()))

    def keep(self, name: str, payload: bytes) -> Future[list[Ack]]:
        """Keep something that a later request will name; the oldest of very many are forgotten."""
        return self._ask(_Request((), Future(), (name, payload)))

    def _ask(self, request: _Request) -> Future[list[Ack]]:
        request.done.set_running_or_notify_cancel()  # the caller may leave; what is begun is done
        with self._wake:
            if self.failed is not None or self._closing:
                request.done.set_exception(JournalFailed(self.failed or "the model is being closed."))
            else:
                self._waiting.append(request)
                self._wake.notify_all()
        return request.done

    def prune(self, seq: int) -> None:
        """Delete the events up to this one, little by little. The last event stays, since it holds the position: if that one is
        to go, too, another is written behind it."""
        if seq >= self.seq:
            self.append([Draft(PRUNED, b"")])
        with self._wake:
            self._prune_to = max(self._prune_to, seq)
            self._wake.notify_all()

    def close(self) -> None:
        """Write what waits, and close the file."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._writer.join()
        with self._db_lock, contextlib.suppress(sqlite3.Error):
            self._db.close()

    def note(self, notes: dict[str, Any]) -> None:
        """Other notes than those it was made with."""
        with self._db_lock, self._transaction():
            self._db.execute("UPDATE meta SET value = ? WHERE name = 'notes'", (json.dumps(notes),))
        self.notes = notes

    # --- reading

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self._index.seq

    @property
    def position(self) -> int:
        """Samples that were acknowledged."""
        return self._index.position

    def producer(self, name: str) -> int | None:
        """The last count of a producer; None if it never sent anything."""
        found = self._index.producers.get(name)
        return None if found is None else found[0]

    @property
    def reach(self) -> int:
        """Events up to this one are deleted, or will be at any moment."""
        return max(self._prune_to, self.pruned)

    def knows(self, key: bytes) -> bool:
        return key in self._index.keys

    def kept(self, name: str) -> bytes | None:
        with self._db_lock:
            row = self._db.execute("SELECT payload, crc FROM kept WHERE name = ?", (name,)).fetchone()
        if row is not None and zlib.crc32(row[0]) != row[1]:
            raise MnemonError(f"what {self.path} kept under {name} is damaged.")
        return None if row is None else bytes(row[0])

    def events(self, after: int = 0, *, after_position: int = -1, kind: str | None = None) -> Iterator[Event]:
        """All events behind this one, in order; of samples, those behind `after_position`. A damaged one is a MnemonError:
        what was acknowledged would be missing."""
        wanted = "seq > ? AND (kind != ? OR position > ?)" + (" AND kind = ?" if kind is not None else "")
        query = (
            f"SELECT seq, kind, position, samples, payload, crc FROM events WHERE {wanted} ORDER BY seq LIMIT {READ}"
        )
        while True:
            given = [after, SAMPLES, after_position, *([] if kind is None else [kind])]
            with self._db_lock:
                try:
                    rows = self._db.execute(query, given).fetchall()
                except sqlite3.Error as error:
                    raise database.damaged(self.path, error) from None
            for *row, crc in rows:
                event = Event(*row)
                if crc_of(event) != crc:
                    raise database.damaged(self.path, f"event {event.seq} does not match its checksum")
                yield event
            if len(rows) < READ:
                return
            after = rows[-1][0]

    def holds(self, kind: str) -> bool:
        """Whether an event of this kind is there that is not about to be deleted."""
        with self._db_lock:
            query = "SELECT EXISTS (SELECT 1 FROM events WHERE kind = ? AND seq > ?)"
            (found,) = self._db.execute(query, (kind, self.reach)).fetchone()
        return bool(found)

    def first_waiting(self, position: int) -> int | None:
        """The event with the first samples behind this position."""
        with self._db_lock:
            query = "SELECT MIN(seq) FROM events WHERE kind = ? AND position > ?"
            (seq,) = self._db.execute(query, (SAMPLES, position)).fetchone()
        return None if seq is None else int(seq)

    def samples_at(self, position: int) -> Event | None:
        """The samples that were acknowledged with this position; None if they are not in the journal (any more)."""
        with self._db_lock:
            row = self._db.execute(
                "SELECT seq, kind, position, samples, payload FROM events WHERE position = ? AND kind = ?",
                (position, SAMPLES),
            ).fetchone()
        return None if row is None else Event(*row)

    # --- the thread that writes

    def _write(self) -> None:
        group: list[_Request] = []
        try:
            self._write_on(group)
        except Exception as error:  # whatever it is: nobody may wait for ever
            logger.exception("the journal's writer ended")
            failed = self._fail(error)
            for request in group:
                if not request.done.done():
                    request.done.set_exception(failed)

    def _write_on(self, group: list[_Request]) -> None:
        """`group` holds what is being written."""
        while True:
            with self._wake:
                while not (self._waiting or self._prune_to or self._closing):
                    self._wake.wait()
                if not self._waiting and not self._prune_to:
                    return
                group[:] = self._group()
            if group:
                self._commit(group)
            if self._prune_to:
                self._prune_step()

    def _group(self) -> list[_Request]:
        group: list[_Request] = []
        size = 0
        while self._waiting and len(group) < GROUP_REQUESTS and size < GROUP_BYTES:
            group.append(self._waiting.popleft())
            size += group[-1].size
        return group

    def _commit(self, group: list[_Request]) -> None:
        transaction = Transaction(self._index)
        answers: list[tuple[_Request, list[Ack] | MnemonError]] = []
        try:
            with self._db_lock, self._transaction():
                for request in group:
                    try:
                        transaction.check(request.drafts)
                    except (KeyReused, Refused) as error:
                        answers.append((request, error))
                        continue
                    if request.kept is not None:
                        transaction.keep(*request.kept)
                    answers.append((request, [transaction.take(draft) for draft in request.drafts]))
                transaction.write(self._db)
        except MnemonError as error:  # rolled back
            for request in group:
                request.done.set_exception(error)
            return
        transaction.adopt()
        self.commits += any(event.kind == SAMPLES for event in transaction.events)
        self._committed(transaction.events)
        for request, answer in answers:
            if isinstance(answer, MnemonError):
                request.done.set_exception(answer)
            else:
                request.done.set_result(answer)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Commit what is written within, or roll it back and say why. After a flush that failed nobody knows what is on the
        disk: the journal then takes nothing more."""
        try:
            if self.failed is not None:
                raise JournalFailed(self.failed)
            self._db.execute("BEGIN IMMEDIATE")
            yield
            if not self._is_in_place():  # the system would write to a file that has no name any more
                raise sqlite3.OperationalError("it was moved, replaced or deleted")
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            try:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
            except sqlite3.Error:
                full = False
            if full:
                raise NoSpace(f"there is no space left for {self.path}; nothing of this request was kept.") from None
            raise self._fail(error) from None
        except Exception:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self.path.stat(), self._file)
        except OSError:
            return False

    def _fail(self, error: Exception) -> JournalFailed:
        sentence = (
            f"{self.path} could not be written ({error}); the model takes no more samples until it is started again."
        )
        with self._wake:
            self.failed, waiting = sentence, list(self._waiting)
            self._waiting.clear()
            self._prune_to = 0
        for request in waiting:
            request.done.set_exception(JournalFailed(sentence))
        return JournalFailed(sentence)

    def _prune_step(self) -> None:
        target, db = min(self._prune_to, self._index.seq - 1), self._db
        try:
            with self._db_lock, self._transaction():
                (last,) = db.execute(
                    "SELECT MAX(seq) FROM (SELECT seq FROM events WHERE seq <= ? ORDER BY seq LIMIT ?)", (target, STEP)
                ).fetchone()
                if last is not None:
                    db.execute("DELETE FROM events WHERE seq <= ?", (last,))
                    db.execute("UPDATE meta SET value = ? WHERE name = 'pruned'", (json.dumps(last),))
                (newest,) = db.execute("SELECT COALESCE(MAX(id), 0) FROM keys").fetchone()
                old = "SELECT id, key FROM keys WHERE id <= ? AND NOT lasting ORDER BY id LIMIT ?"
                gone = db.execute(old, (newest - KEYS, STEP)).fetchall()
                db.executemany("DELETE FROM keys WHERE id = ?", [(id_,) for id_, _ in gone])
        except MnemonError:
            last = None  # no space to delete in: the next snapshot asks again
        else:
            self.pruned = self.pruned if last is None else last
            for _, key in gone:
                self._index.keys.pop(key, None)
            if last is not None and last >= target:
                with self._db_lock, contextlib.suppress(sqlite3.Error):  # the log still holds what was deleted
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with self._wake:
            if last is None or (last >= target and self._prune_to == target):
                self._prune_to = 0
