"""What an OnlineClassifier has learned: the learner and its labels, changed whole chunks at a time, read by any thread."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.estimator import drift, threads, values
from mnemon.estimator.batches import learn_batches
from mnemon.estimator.embedding import network
from mnemon.estimator.exam import Exam
from mnemon.estimator.frozen import Frozen
from mnemon.estimator.online import OnlineLearner
from mnemon.estimator.parts import Part
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.estimator.table import Growth, Table
from mnemon.estimator.widening import mapped, widened
from mnemon.learning.backbones import Backbone
from mnemon.learning.build import Choice, check_backbone
from mnemon.learning.labels import Label, LabelTable
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import backbone_for
from mnemon.learning.streaming import StreamingLearner
from mnemon.runtime import modes

FAR = 30  # standard deviations from the mean so far, which no new class is on most features
EXAM = "exam"  # among the parts
MAX_CLASSES = 65_536  # every step touches a row of the network for each class


class Model:
    """`n_seen` and `n_classes` are those of the last whole chunk; a chunk that fails leaves everything as it was.

    `exam`: how many samples of a class are held out of learning; `n_seen` counts them too.
    """

    @modes.usual
    def __init__(
        self,
        choice: Choice,
        inputs: Inputs,
        *,
        scaled: bool,
        backbone: Backbone,
        seed: int,
        device: torch.device,
        names: list[Any] | None = None,
        exam: int = 0,
        half_life: float | str | None = None,
        guarded: bool = False,
        table: Table | None = None,
    ) -> None:
        # "auto": a class ages once it has drifted. A number of any type is a float from here on.
        self.half_life = half_life if half_life is None or isinstance(half_life, str) else float(half_life)
        self.guarded = guarded  # whether it watches for drift and every class keeps memory rows; in mnemon 0.1 none did
        self.choice, self.inputs, self.scaled = choice, inputs, scaled and choice.method.trains
        self.seed, self.device = seed, device
        self.names = names  # of the features, where they have some and are fixed
        self.table = table  # how the features are written, where they are not
        self.backbone = network(backbone)
        self.learner = self._learner(self.backbone)
        self.parts: dict[str, Part] = {}  # what else it keeps, by name
        if exam:
            self.parts[EXAM] = Exam(exam, inputs)
        if guarded:
            self.parts["drift"] = drift.Detector(inputs.shape, seed)
        self.labels = LabelTable()
        self.n_seen = self.n_classes = 0
        self.lock = threading.RLock()  # held while a chunk is learned, and while the learner itself is read
        self._frozen: Frozen | None = None
        self._warned = False  # of another scale, once
        self._warned_of_rows = False  # of more classes than memory rows, once

    @modes.usual
    def _learner(self, backbone: Backbone, inputs: Inputs | None = None) -> OnlineLearner | OnlineStatistics:
        """A fresh one; of samples as those so far, unless others are given."""
        method, objective, _ = self.choice
        inputs = inputs or self.inputs
        check_backbone(type(method), backbone)
        if isinstance(backbone, str):  # what is given may be anything
            backbone = backbone_for(method, backbone, inputs.shape)
        if not method.trains:
            return OnlineStatistics(
                method,
                objective,
                inputs,
                half_life=None if isinstance(self.half_life, str) else self.half_life,
                backbone=backbone,
                seed=self.seed,
                device=self.device,
            )
        return OnlineLearner(
            method,
            objective,
            inputs,
            scaled=self.scaled,
            floor=self.guarded,
            half_life=self.half_life,
            backbone=backbone,
            seed=self.seed,
            device=self.device,
        )

    def classes(self) -> NDArray[Any]:
        while True:  # no lock: a thread that learns holds it long
            table, n = self.labels, self.n_classes
            if self.labels is table:  # else `replace` came between the two
                return values.class_array(table.labels[:n])

    def backbone_name(self) -> str:
        """What makes features, in words; a module of the user's by its class."""
        if isinstance(self.backbone, str) and self.backbone != "auto":
            return self.backbone
        return type(self.learner.net.backbone).__name__

    def begin_with(self, dictionary: StreamingLearner) -> None:
        """Before anything is learned: have the features of another learner."""
        learner = self.learner
        mine, theirs = (
            {name: tensor.shape for name, tensor in each.net.backbone.state_dict().items()}
            for each in (learner, dictionary)
        )
        if isinstance(learner, OnlineStatistics) and self.inputs == dictionary.inputs and mine == theirs:
            learner.take_dictionary(dictionary)
            if learner.digest() == dictionary.digest():
                return
        raise MnemonError(
            "the dictionary that fresh() handed over does not fit these samples or these parameters: they are to be those of "
            "the model it came from."
        )

    def dictionary(self) -> OnlineStatistics | None:
        """A learner with the same features that has learned nothing; None for a network."""
        with self.lock:
            if not isinstance(self.learner, OnlineStatistics) or self.table is not None:
                return None  # open tables need none: their features are matched by name
            made = self._learner(self.learner.net.backbone)
            assert isinstance(made, OnlineStatistics)
            made.take_dictionary(self.learner)
            return made

    # --- features that come later

    @contextlib.contextmanager
    def grown(self, growth: Growth | None) -> Iterator[None]:
        """Within, samples have the columns of a table that grew; if what is done there fails, all is as it was."""
        if growth is None or growth.table is self.table:
            yield
            return
        with self.lock:
            before = {name: vars(self)[name] for name in ("table", "inputs", "learner", "parts")}
            wider = len(growth.past) > 0
            if wider:
                learner, parts = self.wider(growth.past)
                self.learner, self.inputs, self.parts = learner, learner.inputs, parts
            self.table = growth.table
            try:
                yield
            except BaseException:
                vars(self).update(before if wider else {"table": before["table"]})  # `learn` put back the rest
                raise

    def wider(self, past: list[float]) -> tuple[OnlineLearner | OnlineStatistics, dict[str, Part]]:
        """Copies of learner and parts with further columns, which hold `past` in all samples so far."""
        made = self._learner(self.backbone, self.inputs._replace(shape=(self.inputs.shape[0] + len(past),)))
        parts = {name: part.copy() for name, part in self.parts.items()}
        d, new = self.inputs.shape[0], torch.tensor(past, dtype=torch.float64)
        for part in parts.values():
            part.recode(torch.eye(d + len(past), d, dtype=torch.float64), torch.cat([new.new_zeros(d), new]))
        return widened(made, self.learner, past), parts

    def mapped(self, theirs: OnlineStatistics, a: NDArray[Any], b: NDArray[Any]) -> OnlineStatistics:
        """A learner as if another one, of a model like this, had learned a·x + b where it learned x."""
        made = self._learner(self.backbone, self.inputs._replace(shape=(len(b),)))
        assert isinstance(made, OnlineStatistics)
        return mapped(made, theirs, a, b)

    def fork(self) -> OnlineLearner | OnlineStatistics:
        """A copy of the learner as the last whole chunk left it; to be called with the lock held."""
        made = self._learner(self.learner.net.backbone)
        made.rollback(self.learner.snapshot())
        return made

    def replace(
        self,
        learner: OnlineLearner | OnlineStatistics,
        labels: Iterable[Label],
        parts: dict[str, Part],
        table: Table | None = None,
    ) -> None:
        """Go on with another learner, its labels and parts; to be called with the lock held. One update, so that no thread and
        no interrupt finds half of it."""
        known = LabelTable(labels)
        before = dict(vars(self))  # until the update is done: nothing is freed, hence nothing else runs, within
        vars(self).update(
            learner=learner,
            inputs=learner.inputs,
            table=table or self.table,
            parts=parts,
            labels=known,
            n_seen=learner.samples + len(exam_of(parts) or ()),
            n_classes=len(known),
            _frozen=None,
        )
        before.clear()

    @modes.usual
    def learn(self, x: Tensor, y: list[Label] | values.Numbers, classes: Iterable[Label] = ()) -> list[str]:
        """Learn each sample once, in order, in batches of batch_size of which the last may be smaller: all, or nothing.

        Returns what the user is to be warned of: by the caller, once all is done, since a warning may be an error."""
        classes = list(classes)
        with self.lock, threads.for_steps(self.learner):
            self.check_classes(classes, y)
            scale = None
            if not self._warned and self.n_classes > 1:  # before, another scale may be another class
                scale = _of_another_scale(x, self.learner.over_all())
            before, known = self.learner.snapshot(), len(self.labels)
            parts = {name: part.copy() for name, part in self.parts.items()}
            try:
                self.labels.add(classes)
                registered = len(self.labels)
                index = self.labels.add(y)
                self.learner.grow(len(self.labels))
                alarms = self._watch(x, torch.from_numpy(index))
                self._learn(x, index, alarms)
            except BaseException:  # an interrupt in the middle of a chunk, too
                self.learner = self._learner(self.learner.net.backbone)
                self.learner.rollback(before)
                self.labels, self.parts = LabelTable(self.labels.labels[:known]), parts
                raise
            self._frozen = None
            self.n_seen = self.learner.samples + len(exam_of(self.parts) or ())
            self.n_classes = len(self.labels)
            said = drift.sentence(self.drifts()[-len(alarms) :], self.half_life) if alarms else None
            self._warned |= scale is not None
            alike = values.spelled_alike(self.labels, registered)
            return [sentence for sentence in (scale, said, self._of_rows(), alike) if sentence]

    def detector(self) -> drift.Detector | None:
        part = self.parts.get("drift")
        return part if isinstance(part, drift.Detector) else None

    def drifts(self) -> list[drift.Drift]:
        with self.lock:
            detector = self.detector()
            return [] if detector is None else detector.drifts(self.labels.labels)

    def aged(self) -> NDArray[np.bool_]:
        """Whether older samples of a class count less, since it has drifted [classes]."""
        detector = self.detector()
        return np.zeros(self.n_classes, bool) if detector is None else detector.aged[: self.n_classes]

    def _watch(self, x: Tensor, y: Tensor) -> list[drift.Alarm]:
        detector = self.detector()
        if detector is None:
            return []
        with threads.one_thread():
            return detector.observe(x, y, len(self.labels))

    def _of_rows(self) -> str | None:
        """What to say, once, if the memory has no row for each class and the classifier reads the memory."""
        learner, size = self.learner, self.choice.method.memory_size
        if self._warned_of_rows or self.n_classes <= size or not isinstance(learner, OnlineLearner):
            return None
        if not (self.guarded and learner.keeps and "memory" in self.choice.classifiers[0].needs):
            return None
        self._warned_of_rows = True
        return (
            f"there are {self.n_classes:,} classes and {size:,} rows in the memory: a class without a row (now "
            f"{learner.rowless():,}) is predicted by the mean of its features as they were when it was learned; a larger "
            "memory_size keeps samples of all."
        )

    def check_classes(self, *labels: list[Label] | values.Numbers) -> None:
        """Refuse more classes than there can be."""
        classes = len(self.labels) + sum(map(len, labels))  # more there cannot be
        if classes > MAX_CLASSES:
            different = [
                label for part in labels for label in (part if isinstance(part, list) else np.unique(part).tolist())
            ]
            classes = len(self.labels) + self.labels.count_new(different)
        if classes > MAX_CLASSES:
            raise MnemonError(
                f"with these there are {classes:,} different labels, and at most {MAX_CLASSES:,} can "
                "be learned; is y an identifier or a measurement instead of a class?"
            )

    def _learn(self, x: Tensor, index: NDArray[np.int64], alarms: list[drift.Alarm]) -> None:
        """Learn a chunk but for what is held out. Where old samples of a drifted class are to count less, they do so from the
        batch on that follows the alarm; those of them in the exam are learned before, as old ones."""
        batch = self.choice.method.batch_size if self.choice.method.trains else 1  # of sums there are none
        follow, before, start = self.half_life == "auto", self.n_seen, 0
        detector, exam = self.detector(), exam_of(self.parts)

        def learn(start: int, stop: int) -> None:
            part, y, held = x[start:stop], index[start:stop], None
            if exam is not None and start < stop:
                part, held = exam.hold_out(part, y)
            learn_batches(self.learner, part, torch.from_numpy(y), held)

        for alarm in alarms:
            assert detector is not None
            detector.note(before + alarm.position + 1, alarm, aged=follow)
            if follow:
                stop = min(len(x), -(-(alarm.position + 1) // batch) * batch)
                learn(start, stop)
                if exam is not None:
                    learn_batches(self.learner, *exam.take(alarm.c))
                self.learner.discount(alarm.c)
                start = stop
        learn(start, len(x))

    def frozen(self) -> Frozen:
        """The model as the last whole chunk left it. While no thread learns, and while a chunk is being learned of which the
        state before is at hand, this costs nothing; else the first one to ask makes it."""
        frozen = self._frozen
        if frozen is None:
            with self.lock:
                frozen = self._frozen
                if frozen is None:
                    labels = self.labels.labels[: self.n_classes]
                    exam = exam_of(self.parts)
                    asked = None if exam is None else exam.copy()
                    frozen = Frozen(self.learner, self.choice.classifiers[0], labels, asked)
                    if self.table is not None:
                        frozen.table = replace(self.table, means=frozen.column_means)
                    self._frozen = frozen
        return frozen

    # --- copies: a lock cannot be one, and a copy must not be half a chunk

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            kept = {name: value for name, value in vars(self).items() if name not in ("lock", "_frozen")}
            return copy.deepcopy(kept)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=threading.RLock(), _frozen=None)


def exam_of(parts: dict[str, Part]) -> Exam | None:
    """The exam among the parts of a model, where it has one."""
    exam = parts.get(EXAM)
    assert exam is None or isinstance(exam, Exam)
    return exam


def _of_another_scale(x: Tensor, so_far: tuple[Tensor, Tensor] | None) -> str | None:
    """What to say if most features of a chunk are where none of them ever was: pixels in 0 … 255 after those in 0 … 1."""
    if x.ndim != 2 or so_far is None:
        return None
    mean, std = so_far[0].cpu(), so_far[1].sqrt().cpu()
    varies = std > 1e-6 * mean.abs()  # a constant may become anything
    away = (x.mean(0, dtype=torch.float64) - mean).abs() > FAR * std
    if int((away & varies).sum()) <= int(varies.sum()) / 2:
        return None
    return (
        f"on more than half of the features these samples are over {FAR} standard deviations away from the mean of "
        "those before; were they scaled in another way?"
    )
