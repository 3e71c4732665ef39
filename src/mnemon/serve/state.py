"""A model as a function of its journal: each event is taken in exactly as it was, or will be after a crash.

Samples wait in the backlog until a cut says up to where the next chunk reaches: the same samples in other chunks would give
other bytes. What was retracted is left out of its chunk.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier
from mnemon.estimator.auto import resolve
from mnemon.estimator.taking_back import NothingLeft
from mnemon.files import parsed
from mnemon.learning.methods import given as method_given
from mnemon.serve import samples as kinds
from mnemon.serve.database import damaged
from mnemon.serve.events import CUT, REFUSED, RETRACTED, SAMPLES, Draft, Event
from mnemon.serve.journal import Journal
from mnemon.serve.samples import Samples

SHOWN = 10  # labels of a request that are told
Refusals = dict[int, str]  # position of a request → why it could not be learned


class Piece(NamedTuple):
    """The samples of one request that are in a chunk."""

    position: int
    samples: Samples


class Retraction(NamedTuple):
    position: int
    samples: int
    seq: int = 0
    shape: tuple[int, ...] = ()  # of a sample


def cut_draft(to: int) -> Draft:
    return Draft(CUT, json.dumps({"to": to}).encode())


def refusal_draft(to: int, refused: Refusals) -> Draft:
    return Draft(REFUSED, json.dumps({"to": to, "refused": list(refused.items())}).encode())


def retraction_draft(event: Event) -> Draft:
    """With the samples: they may have left the journal when it is read again."""
    head = json.dumps({"position": event.position, "samples": event.samples}).encode()
    return Draft(RETRACTED, head + b"\n" + event.payload)


def summary(event: Event) -> dict[str, Any]:
    """What a request with samples held, for those who watch: how many, and of the commonest labels how many each."""
    counts = Counter((type(label), label) for label in kinds.decode(event.payload).y)  # True and 1 are two
    labels = [{"label": label, "samples": n} for (_, label), n in counts.most_common(SHOWN)]
    return {"position": event.position, "samples": event.samples, "labels": labels}


def refusals(journal: Journal) -> dict[int, Refusals]:
    """Of each cut after which something was refused."""
    found = (parsed(event.payload) for event in journal.events(kind=REFUSED))
    return {each["to"]: dict(each["refused"]) for each in found}


def retractions(journal: Journal) -> list[Retraction]:
    return [_retraction(event) for event in journal.events(kind=RETRACTED)]


def first_shape(journal: Journal, taken_back: list[Retraction]) -> tuple[int, ...]:
    """Of the samples that say what all are: the first that were not retracted. () where there are none."""
    gone = {each.position for each in taken_back}
    events = (event for event in journal.events(kind=SAMPLES) if event.position not in gone)
    return next((kinds.kind_of(kinds.decode(event.payload)).shape for event in events), ())


def _retraction(event: Event) -> Retraction:
    line, _, payload = event.payload.partition(b"\n")
    head = parsed(line)
    return Retraction(head["position"], head["samples"], event.seq, kinds.kind_of(kinds.decode(payload)).shape)


class State:
    """`learned` counts samples in the order of the journal, those left out or refused included: it never falls."""

    def __init__(
        self,
        classifier: OnlineClassifier,
        learned: int,
        *,
        refused: dict[int, Refusals],
        retracted: set[int],
        shape: tuple[int, ...] = (),
    ) -> None:
        """`shape` is that of the first samples, for a classifier that has learned nothing: what "auto" means depends on it."""
        self.classifier, self.learned, self._shape = classifier, learned, shape
        self.acknowledged = learned  # as far as the backlog reaches
        self.backlog: deque[Event] = deque()
        self.waiting_bytes = 0  # in the backlog
        self.retracted = retracted  # positions of requests
        self.refused: Refusals = {position: why for each in refused.values() for position, why in each.items()}
        self._refused_at = refused
        self.before: Callable[[list[Piece]], None] = lambda pieces: None  # sees a chunk before it is learned

    @property
    def subtracts(self) -> bool:
        """Whether samples can be taken back exactly, without learning the others again."""
        return self.subtracts_for(self._shape)

    def subtracts_for(self, shape: tuple[int, ...]) -> bool:
        """The same, of samples of a shape where nothing is learned yet: what "auto" means depends on it."""
        model = self.classifier._model_or_none()
        method = (
            method_given(resolve(self.classifier.get_params(deep=False), shape)["method"])
            if model is None
            else type(model.choice.method)
        )
        return not method.trains and self.classifier.half_life is None

    @property
    def method(self) -> str:
        """The name of the method; before anything was learned it may be "auto"."""
        model = self.classifier._model_or_none()
        return str(self.classifier.method) if model is None else model.choice.method.name

    def follow(self, journal: Journal, after: int) -> None:
        """Take in all that is in the journal; events up to `after` are, but for samples that wait."""
        for event in journal.events(after_position=self.learned):
            if event.kind == SAMPLES:
                self._check_gap(journal, event)
                self.add(event)
            elif event.seq > after and event.kind == CUT:
                self.cut(parsed(event.payload)["to"])
            elif event.seq > after and event.kind == RETRACTED:
                found = _retraction(event)
                if found.position not in self.retracted and self.subtracts_for(found.shape):
                    self.retract(found, event.payload.partition(b"\n")[2])

    def _check_gap(self, journal: Journal, event: Event) -> None:
        if event.position - event.samples > self.acknowledged:
            raise damaged(journal.path, f"the samples {self.acknowledged + 1:,} and after are not in it")

    def add(self, event: Event) -> None:
        """Samples that were acknowledged; those known are passed over."""
        if event.position > self.acknowledged:
            self.backlog.append(event)
            self.waiting_bytes += len(event.payload)
            self.acknowledged = event.position

    def cut(self, to: int) -> Refusals:
        """Learn the backlog up to this position; what it says of each request that could not be learned."""
        found: Refusals = {}
        known = self._refused_at.get(to, {})
        for run in _runs(self._pieces(to)):
            if not any(piece.position in known for piece in run):
                self.before(run)
                try:
                    kinds.learn(self.classifier, [piece.samples for piece in run])
                    continue
                except MnemonError:  # it diverged, and nothing of it was learned: whose fault was it?
                    pass
            for piece in run:
                if piece.position in known:
                    continue
                try:
                    kinds.learn(self.classifier, [piece.samples])
                except MnemonError as error:
                    found[piece.position] = str(error)
        self.refused |= found
        self.learned = max(self.learned, min(to, self.acknowledged))
        while self.backlog and self.backlog[0].position <= self.learned:
            self.waiting_bytes -= len(self.backlog.popleft().payload)
        return found

    def _pieces(self, to: int) -> list[Piece]:
        """The samples up to this position, but for those retracted."""
        found = []
        for event in self.backlog:
            start = event.position - event.samples
            if start >= to:
                break
            if event.position not in self.retracted:
                part = kinds.decode(event.payload).part(max(self.learned - start, 0), to - start)
                found.append(Piece(event.position, part))
        return found

    def is_learned(self, retraction: Retraction) -> bool:
        """Whether the model has seen any of these samples."""
        return self.learned > retraction.position - retraction.samples

    def retract(self, retraction: Retraction, payload: bytes) -> None:
        """Leave out what waits, and subtract what was learned (statistics alone can)."""
        if self.is_learned(retraction):
            start = retraction.position - retraction.samples
            try:
                kinds.forget(self.classifier, kinds.decode(payload).part(0, self.learned - start))
            except NothingLeft:  # as if nothing had ever been sent
                self.classifier = OnlineClassifier(**self.classifier.get_params(deep=False))
        self.retracted.add(retraction.position)


def _runs(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Arrays and rows apart: each is learned as one chunk."""
    for _, run in itertools.groupby(pieces, lambda piece: isinstance(piece.samples.x, list)):
        yield list(run)
