"""Taking back what was learned: samples or a class are forgotten, classes renamed or joined, two models made one.

Each function works on a copy of the learner and puts it in the model's place at the end: an error or an interrupt before
leaves the model as it was, and threads that predict meanwhile see the model before or the one after.

Statistics (`slda`) give exactly what they would be had it never been learned, or been learned that way from the start. A
network cannot: what is taken back leaves its memory and its tables, and its weights keep what they learned from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.estimator import values
from mnemon.estimator.batches import learn_batches
from mnemon.estimator.exam import Exam
from mnemon.estimator.model import Model, exam_of
from mnemon.estimator.online import OnlineLearner
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.learning.labels import Label, LabelTable
from mnemon.learning.memory import EMPTY, sample_keys
from mnemon.runtime import modes
from mnemon.runtime.warn import warn


class Draft:
    """A model to be: learner and parts are copies, and may be changed."""

    def __init__(self, model: Model) -> None:
        self.learner = model.fork()
        self.parts = {name: part.copy() for name, part in model.parts.items()}
        self.table = model.table
        self.labels: list[Label] = list(model.labels.labels[: model.n_classes])

    def regroup(self, source: list[int], to: list[int]) -> None:
        """Class c becomes class to[c], or goes where that is −1; source[i] is the class whose tables class i takes over."""
        self.learner.regroup(source, to)
        for part in self.parts.values():
            part.regroup(to)
        self.learn_surplus(exam_of(self.parts))

    def learn_surplus(self, exam: Exam | None) -> None:
        """Learn what has no place in the exam any more, since classes became one."""
        if exam is not None:
            x, y = exam.cut()
            if len(y):
                learn_batches(self.learner, x, y)

    def index(self, labels: list[Label]) -> list[int]:
        """The class of each label, which must have been learned or registered."""
        found: list[int] = LabelTable(self.labels).find(labels).tolist()
        for label, c in zip(labels, found, strict=True):
            if c < 0:
                raise MnemonError(f"there is no class {label!r}: it was never learned, or was taken back before.")
        return found


class NothingLeft(MnemonError):
    """All that was learned would be taken back."""


@contextmanager
def _draft(model: Model) -> Iterator[Draft]:
    """What is done to the draft within takes the model's place, if all of it succeeds."""
    with model.lock:
        draft = Draft(model)
        yield draft
        if not bool(draft.learner.seen.any()):
            raise NothingLeft("nothing that was learned would be left; fresh() makes one that has learned nothing.")
        model.replace(draft.learner, draft.labels, draft.parts, draft.table)


@modes.usual
def forget_samples(model: Model, x: Tensor, y: list[Label]) -> None:
    """Take samples back. Statistics: exactly. A network: every memory row that equals one of them goes."""
    with _draft(model) as draft:
        learner, index = draft.learner, torch.tensor(draft.index(y), dtype=torch.int64)
        kept = torch.zeros(len(index), dtype=torch.bool)  # in a part, which held it out of learning
        for part in draft.parts.values():
            kept |= part.forget(x, index)
        given = np.bincount(index[~kept].numpy(), minlength=len(draft.labels))
        for c in np.flatnonzero(given > learner.counts[: len(given)].numpy()):
            raise MnemonError(
                f"{given[c]:,} samples of the class {draft.labels[c]!r} are to be forgotten, and only "
                f"{int(learner.counts[c]):,} were learned."
            )
        if isinstance(learner, OnlineStatistics):
            for c in np.flatnonzero((given > 0) & model.aged()):
                raise MnemonError(
                    f"samples of the class {draft.labels[c]!r} cannot be taken back exactly: it has drifted, and older ones "
                    "count less since then (half_life='auto'); forget(label=...) takes back the class."
                )
            learner.forget(x[~kept], index[~kept])
        else:
            _forget_rows(learner, x, index)


def _forget_rows(learner: OnlineLearner, x: Tensor, y: Tensor) -> None:
    method, memory = learner.method, learner.memory
    if method.edits_memory:
        raise MnemonError(
            f"{method.name} edits the samples in its memory, so those to be forgotten cannot be found there; "
            "forget(label=...) takes back a whole class."
        )
    if not method.replays:
        raise MnemonError(
            f"{method.name} keeps no sample, and its network keeps what it learned: no sample can be forgotten."
        )
    gone, keys = set(sample_keys(x, y)), sample_keys(memory.x[: memory.size], memory.y[: memory.size])
    # All that are equal, not as many as are given: copies may stand in for rows that were taken out before.
    rows = [row for row, key in enumerate(keys) if key in gone]
    memory.y[rows] = EMPTY
    method.refill(learner)


@modes.usual
def forget_class(model: Model, label: Label) -> None:
    """Take a class back: its column goes, the columns of the others close up in their order."""
    with _draft(model) as draft:
        (gone,) = draft.index([label])
        source = [c for c in range(len(draft.labels)) if c != gone]
        to = [c - (c > gone) for c in range(len(draft.labels))]
        to[gone] = -1
        draft.regroup(source, to)
        del draft.labels[gone]


@modes.usual
def rename(model: Model, names: list[tuple[Label, Label]]) -> None:
    """Give classes other labels, all at once; classes that then have the same label are one.

    That one stands in the column of the class which had the label and keeps it, else in the first column of those joined.
    """
    with _draft(model) as draft:
        old, learner = draft.labels, draft.learner
        classes = draft.index([label for label, _ in names])
        new = {
            c: label for c, (was, label) in zip(classes, names, strict=True) if (type(was), was) != (type(label), label)
        }
        places: dict[tuple[type, Label], list[int]] = {}  # the classes with each new label; first the one that keeps it
        for c, label in sorted(enumerate(old), key=lambda each: each[0] in new):
            label = new.get(c, label)
            places.setdefault((type(label), label), []).append(c)
        groups = sorted(places.items(), key=lambda each: each[1][0])
        if len(groups) < len(old):
            to = [0] * len(old)
            for place, (_, members) in enumerate(groups):
                for c in members:
                    to[c] = place
            # A class that was only registered has untrained rows: one that was learned hands over its own.
            seen = learner.seen.tolist()
            source = [next((c for c in members if seen[c]), members[0]) for _, members in groups]
            draft.regroup(source, to)
        draft.labels = [label for (_, label), _ in groups]


@modes.usual
def merge(model: Model, other: Model) -> None:
    """Take in what another model learned from other samples; classes with the same label are one."""
    if model is other:
        raise MnemonError("a model cannot be merged with itself: its samples would count twice.")
    theirs = _snapshot(other)  # under its own lock alone: two that merge each other must not wait for each other
    with _draft(model) as draft:
        learner = draft.learner
        if not isinstance(learner, OnlineStatistics) or not isinstance(theirs.learner, OnlineStatistics):
            raise MnemonError(
                "networks cannot be merged exactly: weights, unlike sums, do not add up; merge works with method='slda'."
            )
        if draft.table is not None and theirs.table is not None:
            learner, theirs.learner = _unite(model, draft, theirs)
        elif draft.table is not None or theirs.table is not None:
            raise MnemonError("a model with features='open' cannot be merged with one whose features are fixed.")
        elif model.inputs != other.inputs:
            mine, its = (values.kind(*each.inputs[:2]) for each in (model, other))
            raise MnemonError(f"a model of samples of {its} cannot be merged with one of {mine}.")
        if model.names != other.names:
            raise MnemonError("the features of the two models have different names, or come in another order.")
        model.check_classes(theirs.labels)
        table = LabelTable(draft.labels)
        classes = torch.from_numpy(table.add(theirs.labels))
        learner.grow(len(table))
        learner.merge(theirs.learner, classes)
        for name, part in draft.parts.items():
            if name in theirs.parts:
                part.merge(theirs.parts[name], classes)
        exam, its_exam = exam_of(draft.parts), exam_of(theirs.parts)
        if exam is None and its_exam is not None:  # there is no place for its samples here: all are learned
            exam = Exam(0, learner.inputs)
            exam.merge(its_exam, classes)
        draft.learn_surplus(exam)
        known, draft.labels = len(draft.labels), table.labels
    alike = values.spelled_alike(table, known)
    if alike:
        warn(alike)


def _unite(model: Model, draft: Draft, theirs: Draft) -> tuple[OnlineStatistics, OnlineStatistics]:
    """Give both the columns of both; returns their learners."""
    assert draft.table is not None
    assert theirs.table is not None
    assert isinstance(theirs.learner, OnlineStatistics)
    draft.table, past, a, b = draft.table.united(theirs.table)
    if past:
        draft.learner, draft.parts = model.wider(past)
    for part in theirs.parts.values():
        part.recode(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(draft.learner, OnlineStatistics)
    return draft.learner, model.mapped(theirs.learner, a, b)


def _snapshot(model: Model) -> Draft:
    with model.lock:
        return Draft(model)
