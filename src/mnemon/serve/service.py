"""A model that is served: samples are acknowledged when they are in the journal, learned by one thread, and predicted with
a published state, which is replaced by one assignment. Predictions never wait for learning."""

from __future__ import annotations

import contextlib
import hashlib
import math
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from filelock import Timeout
from numpy.typing import NDArray

import mnemon
from mnemon import checkpoint
from mnemon.data.layout import channels_first
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier, saving, served
from mnemon.estimator.model import MAX_CLASSES
from mnemon.estimator.parameters import choice, exam
from mnemon.learning.labels import Label, LabelTable
from mnemon.rng import check_seed
from mnemon.runtime import warn
from mnemon.serve import snapshots
from mnemon.serve.events import SAMPLES, STARTED, Ack, Draft, Event, NoSpace
from mnemon.serve.journal import Journal
from mnemon.serve.learning import Learning
from mnemon.serve.log import Log
from mnemon.serve.published import Published
from mnemon.serve.recovery import restore
from mnemon.serve.samples import Kind, Samples, asked, checked, decode, encode, kind_of, learn, model_kind
from mnemon.serve.state import State
from mnemon.serve.warn_once import WarnOnce

SIZE = 32  # pixels a side of the images of a new model
BACKLOG = 256 * 2**20  # bytes that may wait to be learned


class Busy(MnemonError):
    """Too many samples wait to be learned; a later request may be accepted."""

    def __init__(self, sentence: str, retry_after: float) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class Request(NamedTuple):
    """Samples as they came, and what tells them from others: a key, or the count of a producer."""

    x: Any
    y: Any
    key: bytes | None = None
    digest: bytes = b""
    lasting: bool = False
    producer: str | None = None
    number: int = 0
    follows: int | None = None  # the producer's count before this one


class Service:
    """One model in one folder, which no other process may have meanwhile. Threads: the callers', one that writes the
    journal, one that learns."""

    def __init__(
        self,
        folder: Path,
        *,
        options: dict[str, Any] | None = None,
        size: int | None = None,
        device: Any = "auto",
        recovery: float = 10.0,
        backlog: int = BACKLOG,
        turn: threading.Semaphore | None = None,
        name: str = "mnemon serve",
    ) -> None:
        """`options` are OnlineClassifier's, for a new model; `recovery` is how many seconds a restart may spend on learning
        again; `turn` is taken for each chunk, so that several models share the processors."""
        self.folder = folder
        self.prediction_cost = math.inf  # seconds of the processor for a sample, when it was last asked
        self._closed = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            stack.enter_context(_alone(folder, name))
            self._accepting = threading.Lock()
            self._backlog = backlog
            newest = next(snapshots.readable(folder, device), None)
            given = {key: value for key, value in (options or {}).items() if value is not None}
            self.journal = self._journal(newest, given, size)
            stack.callback(self.journal.close)
            self.size = int(self.journal.notes["size"])
            fresh = self._fresh(device)
            log = Log()
            self._warned = WarnOnce(folder.name, log)
            began = time.perf_counter()
            with warn.heard(self._warned):
                state, snapshot = restore(folder, self.journal, fresh, device)
            replayed = time.perf_counter() - began
            self._note_start(state)
            self._labels = LabelTable(_labels(state))
            self._first = next((kind_of(decode(event.payload)) for event in _live(state)), None)
            self.learning = Learning(
                self.journal,
                state,
                snapshot,
                folder=folder,
                fresh=fresh,
                device=device,
                recovery=recovery,
                replayed=replayed,
                turn=turn or threading.Semaphore(),
                emptied=self._forget_kind,
                log=log,
                warned=self._warned,
            )
            stack.callback(self.learning.close)
            self._closed = stack.pop_all()

    def _journal(self, newest: snapshots.Snapshot | None, given: dict[str, Any], size: int | None) -> Journal:
        """The journal in the folder, or a new one behind the model that is there."""
        saving.check_folder(self.folder)
        if newest is None:
            _check_new(given)
        else:
            _check_options(self.folder, newest.classifier, given)
        shape = None if newest is None else newest.classifier._model.inputs.shape
        square = shape[1] if shape is not None and len(shape) == 3 else None
        place = snapshots.Place(0, 0, 0) if newest is None else newest.place
        notes = {"options": given, "size": square or size or SIZE}
        journal = Journal(
            self.folder / served.JOURNAL, self._arrived, start=place.learned, after=place.seq, notes=notes
        )
        try:
            self._settle(journal, given, size, made=newest is not None)
        except MnemonError:
            journal.close()
            raise
        return journal

    def _settle(self, journal: Journal, given: dict[str, Any], size: int | None, *, made: bool) -> None:
        """Options of a model that was begun: they count as long as nothing was acknowledged, and must not differ later. One
        that is `made` has its own, which were compared."""
        begun = OnlineClassifier(**journal.notes["options"]).get_params(deep=False)
        changed = {name: value for name, value in given.items() if not made and begun[name] != value}
        if size is not None and size != journal.notes["size"]:
            changed["size"] = size
        if not changed:
            return
        if made or journal.position > journal.start:
            name, value = next(iter(changed.items()))
            was = journal.notes["size"] if name == "size" else begun[name]
            raise MnemonError(
                f"the model {self.folder} was begun with {name} {was}, not {value}; leave the option out to go on with it."
            )
        options = journal.notes["options"] | given
        journal.note({"options": options, "size": size or journal.notes["size"]})

    def _fresh(self, device: Any) -> Callable[[], OnlineClassifier]:
        options = self.journal.notes["options"]
        return lambda: OnlineClassifier(**options, device=device)

    def _note_start(self, state: State) -> None:
        """The bytes of what is learned depend on these."""
        about = f"mnemon {mnemon.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
        text = f"{about}, {torch.get_num_threads()} threads, {state.classifier.device}"
        with contextlib.suppress(NoSpace):  # it can be done without
            self.journal.append([Draft(STARTED, text.encode())]).result()

    def close(self) -> None:
        """Stop learning, write a snapshot, let go of the folder."""
        self._closed.close()

    # --- learning

    @property
    def kind(self) -> Kind | None:
        """What all samples are; None before the first ones."""
        return model_kind(self.learning.state.classifier) or self._first

    @property
    def labels(self) -> Sequence[Label]:
        """All that were learned or wait to be; more are only ever appended."""
        return self._labels.labels

    def _forget_kind(self) -> None:
        """The samples that said what all are were taken back before anything was learned."""
        with self._accepting:
            state = self.learning.state
            if state.acknowledged == self.journal.position:  # else more has come meanwhile
                self._first = None

    def accept(self, requests: list[Request]) -> Future[list[Ack]]:
        """Check samples and write them into the journal, all of these requests or none. What comes back is acknowledged: it
        will be learned whatever happens, and only a loss that is not finite can refuse it."""
        self._check_open()
        with warn.heard(self._warned):
            kind = self.kind
            found = None if kind is None else self._read(requests, kind)  # many at a time
            with self._accepting:
                if found is None or self.kind != kind:  # the first request says of what kind all others are
                    kind = self.kind
                    found = self._read(requests, kind)
                drafts, labels, kind = found
                self._check_labels(labels)
                done = self.journal.append(drafts)
                if self.kind is None:
                    done.result()
                    self._first = kind
                self._labels.add(labels)
        return done

    def _read(self, requests: list[Request], kind: Kind | None) -> tuple[list[Draft], list[Label], Kind | None]:
        """What the journal is to hold, the labels, and the kind of all samples; `kind` is that of those before."""
        classifier = self.learning.state.classifier
        drafts: list[Draft] = []
        labels: list[Label] = []
        for request in requests:
            samples = checked(classifier, request.x, request.y, kind)
            if kind is None:
                kind = kind_of(samples)
                self._try(samples)
            labels += samples.y
            key = {"key": request.key, "digest": request.digest, "lasting": request.lasting}
            source = {"producer": request.producer, "number": request.number, "follows": request.follows}
            drafts.append(Draft(SAMPLES, encode(samples), len(samples.y), **key, **source))  # type: ignore[arg-type]
        return drafts, labels, kind

    def _try(self, samples: Samples) -> None:
        """Whether a model can be made for samples of this kind: the first one is learned by one that is thrown away."""
        learn(self._fresh("cpu")(), [samples.part(0, 1)])

    def learn(self, x: Any, y: Any, **more: Any) -> Ack:
        """`accept` one request, and wait until it is acknowledged."""
        return self.accept([Request(x, y, **more)]).result()[0]

    def _check_open(self) -> None:
        learning = self.learning
        if learning.failed is not None:
            raise Busy(learning.failed, 60)
        if learning.waiting_bytes > self._backlog:
            seconds = max(1.0, learning.waiting / max(learning.rate, 1.0))
            raise Busy(
                f"{learning.waiting:,} samples wait to be learned, which is the limit; try again later.", seconds
            )

    def _check_labels(self, labels: list[Label]) -> None:
        if len(self._labels) + len(labels) > MAX_CLASSES:
            classes = len(self._labels) + self._labels.count_new(labels)
            if classes > MAX_CLASSES:
                raise MnemonError(
                    f"with these there are {classes:,} different labels, and {MAX_CLASSES:,} are the limit."
                )

    def _arrived(self, events: list[Event]) -> None:
        if any(event.kind == SAMPLES for event in events):
            self.learning.arrived(events)

    def label(self, prediction: str, label: Any) -> Future[list[Ack]]:
        """Learn what was predicted, with the label that came later; once."""
        payload = self.journal.kept(prediction)
        if payload is None:
            raise Gone(f"there is no prediction {prediction}, or it is no longer stored.")
        x: Any = decode(payload).x
        if not isinstance(x, list) and x.ndim == 4:
            x = channels_first(x)
        digest = repr(label).encode()
        if len(digest) >= 64:  # a short one is its own digest: journals are full of them
            digest = hashlib.blake2b(digest).digest()
        return self.accept([Request(x, [label] * len(x), key=b"label " + prediction.encode(), digest=digest)])

    def retract(self, position: int) -> Future[None]:
        """Take back the request that was acknowledged with this position."""
        self._check_open()
        return self.learning.ask_retract(position)

    # --- predicting

    @property
    def published(self) -> Published:
        return self.learning.published

    def predict(self, x: Any) -> tuple[Published, NDArray[np.float64], Samples]:
        """The published state, the probabilities [n, classes], and the samples as they would be learned."""
        published = self.published
        if published.frozen is None:
            raise NothingLearned("this model has learned nothing yet, so it can predict nothing.")
        began = time.thread_time()
        with warn.heard(self._warned):
            given = asked(published.classifier, x, published.kind)
            found = published.probabilities(given)
        self.prediction_cost = (time.thread_time() - began) / len(given)
        return published, found, Samples(given, [])


class Gone(MnemonError):
    """What was asked for is not stored, or no longer."""


class NothingLearned(MnemonError):
    """There is nothing to predict with."""


@contextlib.contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Within, no other process has the folder."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(checkpoint.alone(folder, ".lock", timeout=0))
        except Timeout:
            raise MnemonError(f"{served.owner(folder)} is fitting or serving {folder}.") from None
        served.claim(folder, name)
        stack.callback((folder / served.OWNER).unlink, missing_ok=True)
        for part in folder.glob(".*.part"):  # what a killed process was writing
            if checkpoint.belongs(part.name) or saving.OTHERS.fullmatch(part.name):
                part.unlink(missing_ok=True)
        yield


def _live(state: State) -> Iterator[Event]:
    """What waits and was not taken back."""
    return (event for event in state.backlog if event.position not in state.retracted)


def _labels(state: State) -> list[Label]:
    """All there are, those that wait to be learned included."""
    model = state.classifier._model_or_none()
    waiting = [label for event in _live(state) for label in decode(event.payload).y]
    return [*([] if model is None else model.labels.labels), *waiting]


def _check_new(given: dict[str, Any]) -> None:
    """Options of a model that is yet to be made are refused before anything is written."""
    names = OnlineClassifier._get_param_names()
    for name in given:
        if name not in names:
            raise MnemonError(f"there is no parameter {name!r}; there are {', '.join(names)}.")
    classifier = OnlineClassifier(**given)
    choice(classifier.get_params(deep=False))
    exam(classifier.exam)
    check_seed(classifier.seed)


def _check_options(folder: Path, classifier: OnlineClassifier, given: dict[str, Any]) -> None:
    made = classifier.get_params(deep=False)
    for name, value in given.items():
        if name not in made:
            raise MnemonError(f"there is no parameter {name!r}; there are {', '.join(made)}.")
        if made[name] != value:
            raise MnemonError(
                f"the model {folder} was made with {name} {made[name]}, not {value}; leave the option out to go on with it."
            )
