"""The thread that learns: it cuts the backlog into chunks, learns them, publishes what it learned and saves snapshots."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier
from mnemon.learning.labels import Label
from mnemon.runtime import heap, warn
from mnemon.serve import snapshots
from mnemon.serve.best_results import BestResults
from mnemon.serve.commands import Commands
from mnemon.serve.curve import Curve
from mnemon.serve.events import RETRACTED, SAMPLES, Draft, Event, JournalFailed, NoSpace
from mnemon.serve.journal import Journal
from mnemon.serve.log import Log
from mnemon.serve.published import Published, publish
from mnemon.serve.recovery import OutOfReach, check_reach, restore
from mnemon.serve.schedule import Schedule
from mnemon.serve.snapshots import Place, Snapshot
from mnemon.serve.state import Piece, Retraction, State, cut_draft, refusal_draft, retraction_draft, summary
from mnemon.serve.waiters import Waiters

logger = logging.getLogger(__name__)
CHUNK = 0.2  # seconds that a chunk may take
PUBLISH_EVERY, PUBLISH_SHARE = 0.25, 0.25  # seconds between, and share of the learner's time
RETRY = 0.5  # seconds, when the disk is full
PAUSE, TOGETHER = (
    0.05,
    1_000,
)  # a network is taught again after so many seconds without a retraction, or so many of them
NICE = 5  # of this thread


class OutOfJournal(MnemonError):
    """The samples to be taken back are not in the journal any more."""


class Refused(MnemonError):
    """What is asked for cannot be done in this state."""


class Learning:
    """The state of the model belongs to this thread; others read `published` and numbers."""

    def __init__(
        self,
        journal: Journal,
        state: State,
        snapshot: Snapshot,
        *,
        folder: Path,
        fresh: Callable[[], OnlineClassifier],
        device: Any,
        recovery: float,
        replayed: float,
        turn: threading.Semaphore,
        emptied: Callable[[], None],
        log: Log,
        warned: Callable[[str], None],
    ) -> None:
        """`fresh` makes a classifier that has learned nothing; `replayed` is how many seconds the start took to learn what the
        snapshot lacked; `emptied` is called when a retraction leaves nothing, `warned` with what the model warns of."""
        self.journal, self.state = journal, state
        self.curve, self.best = Curve(snapshot.curve), BestResults(_labels(snapshot.classifier), snapshot.best)
        self.log, self._warned = log, warned
        self.failed: str | None = None  # why nothing more is learned
        self.rate = 0.0  # samples per second of learning
        self._folder, self._fresh, self._device = folder, fresh, device
        self._turn, self._emptied = turn, emptied
        self._place = snapshot.place
        self._schedule = Schedule(recovery, replayed)
        if state.learned > snapshot.place.learned or journal.holds(RETRACTED):
            self._schedule.changed()
        self._published_at = self._publishing = 0.0
        self._wake = threading.Condition()
        self._arrivals: deque[Event] = deque()
        self._arriving_bytes = 0
        self._commands = Commands(self._wake)
        # Retracted in the journal, not yet in the state: position → summary.
        self._to_unlearn: dict[int, dict[str, Any]] = {}
        self._waiting = Waiters(lambda published: (self.published if published else self.state).learned)
        self._closing = False
        state.before = self._test
        self.published: Published = publish(state.classifier, state.learned)
        self.best.note(self.published)
        self._thread = threading.Thread(target=self._run, name=f"learner {folder.name}", daemon=True)
        self._thread.start()

    def arrived(self, events: list[Event]) -> None:
        """Samples that were acknowledged, in order."""
        samples = [event for event in events if event.kind == SAMPLES]
        with self._wake:
            self._arrivals.extend(samples)
            self._arriving_bytes += sum(len(event.payload) for event in samples)
            self._wake.notify_all()

    @property
    def saved(self) -> int:
        """Samples that the newest snapshot has learned."""
        return self._place.learned

    @property
    def waiting_bytes(self) -> int:
        return self.state.waiting_bytes + self._arriving_bytes

    @property
    def waiting(self) -> int:
        """Samples that are acknowledged and not learned."""
        return self.journal.position - self.state.learned

    def close(self) -> None:
        """Finish the chunk, save a snapshot, end."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        self._give_up("the model is being closed.")

    def wait(self, position: int, *, published: bool) -> Future[None]:
        """Done when so many samples are learned, or published; a JournalFailed: they never will be."""
        if position > self.journal.position and self.journal.failed is not None:
            never: Future[None] = Future()
            never.set_exception(JournalFailed(self.journal.failed))
            return never
        return self._waiting.add(position, published=published)

    # --- the thread

    def _run(self) -> None:
        _step_back()
        try:
            with warn.heard(self._warned):
                while self._turn_of_loop():
                    pass
            if self.failed is None and self.journal.failed is None:
                self._save()
        except Exception as error:  # whatever it is: predictions go on, and it is said
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        sentence = str(error) if isinstance(error, MnemonError) else f"{type(error).__name__}: {error}"
        self.failed = f"the model learns no more until it is started again: {sentence}"
        self.log.add("failed", reason=self.failed)
        logger.error(self.failed, exc_info=not isinstance(error, MnemonError))
        self._give_up(self.failed)

    def _give_up(self, why: str) -> None:
        """Answer those who still wait for this thread."""
        self._waiting.end(self._commands.end(why))

    def _turn_of_loop(self) -> bool:
        """One chunk, retraction, publication or snapshot; whether there is to be another turn."""
        with self._wake:
            if 0 < len(self._to_unlearn) < TOGETHER:
                self._wake.wait_for(lambda: self._commands or self._closing, PAUSE)
            while not self._has_work():
                self._wake.wait(self._patience())
            while self._arrivals:
                self.state.add(self._arrivals.popleft())
            self._arriving_bytes = 0
            command = self._commands.take()
        if command is not None:
            command()
            return True
        if self._to_unlearn:
            self._rebuild()
            return True
        if self._closing:
            return False
        if self.state.backlog:
            self._chunk()
        if self._until_due() == 0.0:
            self._publish()
        if self._until_save() == 0.0:
            self._save()
        return True

    def _has_work(self) -> bool:
        waits = self._arrivals or self._commands or self._to_unlearn or self.state.backlog
        return bool(waits) or self._closing or self._patience() == 0.0

    # --- a chunk

    def _chunk(self) -> None:
        state, began = self.state, time.perf_counter()
        to = state.learned + self._length(state.acknowledged - state.learned)
        cut = self.journal.append([cut_draft(to)])  # written while the chunk is learned
        before, bytes_before, classes = state.learned, state.waiting_bytes, self._classes()
        with self._turn:
            learning = time.perf_counter()
            refused = state.cut(to)
        seconds = time.perf_counter() - learning
        self._durable(cut, cut_draft(to))
        if refused:
            self._durable(None, refusal_draft(to, refused))
            for position, why in refused.items():
                self.log.add("refused", position=position, reason=why)
        now = (to - before) / max(seconds, 1e-6)
        self.rate = now if self.rate == 0 else 0.8 * self.rate + 0.2 * now
        self._schedule.learned(time.perf_counter() - began, bytes_before - state.waiting_bytes)
        for label in self._classes()[len(classes) :]:
            self.log.add("class", label=label)
        self._waiting.tell()

    def _classes(self) -> list[Label]:
        return _labels(self.state.classifier)

    def _length(self, waiting: int) -> int:
        """Whole batches where there are as many, since a smaller last batch is a step of its own; about CHUNK seconds."""
        batch: int = self.state.classifier.batch_size
        most = max(int(self.rate * CHUNK) // batch, 1) * batch
        return min(waiting // batch * batch, most) or waiting

    def _durable(self, written: Future[Any] | None, draft: Draft) -> None:
        """Wait until an event is on the disk; a full one is tried again, since what follows stands on it."""
        while True:
            try:
                (written or self.journal.append([draft])).result()
                return
            except NoSpace:
                if self._closing:
                    raise
                self.log.add("full", reason="the disk is full: learning waits.")
                time.sleep(RETRY)
                written = None

    def _test(self, chunk: list[Piece]) -> None:
        """Predict a chunk before it is learned, with what is published: what a client would have been told."""
        published = self.published
        if published.frozen is None or not self.curve.has_time():
            return
        began = time.perf_counter()
        labels = {(type(label), label): c for c, label in enumerate(published.labels)}
        predicted = right = 0
        for piece in chunk:
            best = published.probabilities(piece.samples.x).argmax(1).tolist()
            right += sum(labels.get((type(y), y)) == c for y, c in zip(piece.samples.y, best, strict=True))
            predicted += len(best)
        self.curve.add(self.state.learned, predicted, right, time.perf_counter() - began)

    # --- publishing and saving

    def _patience(self) -> float | None:
        """Seconds until it is time to publish or to save; None: there is nothing to wait for."""
        return min((each for each in (self._until_due(), self._until_save()) if each is not None), default=None)

    def _until_due(self) -> float | None:
        """Seconds until it is time to publish: at once when nothing waits, else now and then, and always within its share of
        the time. None: there is nothing to publish."""
        published, state = self.published, self.state
        if published.learned == state.learned and published.classifier is state.classifier:
            return None
        between = max(PUBLISH_EVERY if state.backlog else 0.0, self._publishing * (1 / PUBLISH_SHARE - 1))
        return max(self._published_at + between - time.monotonic(), 0.0)

    def _publish(self) -> None:
        began = time.monotonic()
        with self._turn:
            self.published = publish(self.state.classifier, self.state.learned)
        self.best.note(self.published)
        self._published_at = time.monotonic()
        self._publishing = self._published_at - began
        self.log.add("published", learned=self.published.learned)
        self._waiting.tell()

    def _until_save(self) -> float | None:
        """Seconds until a snapshot is due; None: there is nothing to be saved, or it cannot be."""
        return None if self.journal.failed is not None or self._is_empty() else self._schedule.until()

    def _is_empty(self) -> bool:
        return self.state.classifier._model_or_none() is None

    def _save(self) -> None:
        """Write a snapshot if there is anything to be saved. One that cannot be written is said: the journal still has
        everything."""
        try:
            self._write_snapshot()
        except MnemonError as error:
            logger.warning(f"no snapshot was saved: {error}")
            self.log.add("unsaved", reason=str(error))
            self._schedule.failed()

    def _write_snapshot(self) -> None:
        """Write a snapshot, and let the events go that two snapshots have. While retracted samples are among those left,
        another snapshot is to follow."""
        if self._is_empty() or not self._schedule.is_needed:
            return
        state, began = self.state, time.monotonic()
        place = Place(self._place.number + 1, self.journal.seq, state.learned)
        snapshots.save(self._folder, state.classifier, place, self.curve.points, self.best.table(self._classes()))
        heap.trim()  # each publication is a copy of the model
        older, self._place = self._place, place
        self._schedule.saved(time.monotonic() - began)
        self.log.add("saved", learned=state.learned)
        if older.number > 0:
            waiting = self.journal.first_waiting(older.learned)
            self.journal.prune(older.seq if waiting is None else min(older.seq, waiting - 1))
        if self.journal.holds(RETRACTED):
            self._schedule.changed()

    def ask_save(self) -> Future[None]:
        """Done when all that was learned is in a snapshot."""

        def save() -> Callable[[], None]:
            if self._to_unlearn:
                self._rebuild()
            if self._is_empty():
                raise Refused("this model has learned nothing, so there is nothing to be saved.")
            self._write_snapshot()
            return lambda: None

        return self._commands.ask(save)

    # --- taking back

    def ask_retract(self, position: int) -> Future[None]:
        """Done when it is sure that these samples go: when it is in the journal."""
        return self._commands.ask(lambda: self._retract(position))

    def _retract(self, position: int) -> Callable[[], None]:
        """Write it into the journal; what is returned does the rest."""
        state, event = self.state, self.journal.samples_at(position)
        if position in state.retracted or position in self._to_unlearn:
            return lambda: None
        if event is None or event.kind != SAMPLES:
            raise OutOfJournal(f"the journal holds no request with the position {position}, or no longer.")
        retraction = Retraction(event.position, event.samples)
        if not state.is_learned(retraction) or state.subtracts:
            if position in state.refused:
                raise Refused("these samples were refused, so there is nothing to take back.")
            state.retract(retraction, event.payload)
            self._durable(None, retraction_draft(event))
            return lambda: self._after_retractions([summary(event)])
        try:
            check_reach(self._folder, self.journal, self._fresh, self._device, retraction)
        except OutOfReach:
            raise OutOfJournal(
                "these samples were learned before the oldest snapshot that is kept, so the network cannot be taught again "
                "without them."
            ) from None
        self._durable(None, retraction_draft(event))
        self._to_unlearn[position] = summary(event)
        return lambda: None

    def _rebuild(self) -> None:
        """Learn everything since an older snapshot again, without what was retracted: once for many retractions."""
        retracted, self._to_unlearn = list(self._to_unlearn.values()), {}
        state, snapshot = restore(self._folder, self.journal, self._fresh, self._device)
        state.before = self._test
        self.state, self._place = state, snapshot.place
        self._after_retractions(retracted)
        self._save()  # those with the retracted samples are replaced

    def _after_retractions(self, retracted: list[dict[str, Any]]) -> None:
        self._schedule.changed()
        self._publish()
        for each in retracted:
            self.log.add("retracted", **each)
        if not self._classes() and all(each.position in self.state.retracted for each in self.state.backlog):
            self._emptied()


def _step_back() -> None:
    """Let the threads that answer go first where processors are short. Only Linux has a priority for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _labels(classifier: OnlineClassifier) -> list[Label]:
    model = classifier._model_or_none()
    return [] if model is None else list(model.labels.labels)
