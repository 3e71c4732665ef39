"""Learn a folder or a table: ask about a chunk now and then, learn it, note it, save, go on where it stopped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from filelock import Timeout

from mnemon import checkpoint
from mnemon import files as whole
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier, parameters, saving, served
from mnemon.own_data import asking, sharded, trial
from mnemon.own_data.journal import Chunk, Journal
from mnemon.own_data.measuring import Budget, costs, spread
from mnemon.own_data.places import check_outside
from mnemon.own_data.sharded import Shards, shards
from mnemon.own_data.sources import BadRow, Given, Lesson, Source, TableSource, other_than_made, source_of
from mnemon.readers.columns import NONE, Columns
from mnemon.render import names
from mnemon.runtime.progress import SILENT, Bar, Progress
from mnemon.runtime.signals import Stopped, watched

LEAST = 10  # samples of a chunk


class Fitted(NamedTuple):
    """What came of one call."""

    unit: str  # "images" or "rows"
    learned: int  # samples, now
    known: int  # samples of this source that had been learned before
    skipped: int  # samples that could not be read
    seconds: float  # this call took
    samples: int  # all that the model has ever learned
    labels: list[Any]
    journal: Journal


def fit(
    source: Path,
    out: Path,
    *,
    order: str | None = None,
    size: int | None = None,
    columns: Columns = NONE,
    labels: Path | None = None,
    bad: str | None = None,
    save_every: float = 30.0,
    device: str = "auto",
    on: str | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> Fitted:
    """Learn each sample of a folder or table once, with a new model or the one in `out`; those it knows are passed over.

    Options are OnlineClassifier's; None stands for the model's own, or the default of a new one. SIGINT and SIGTERM save
    and raise `Stopped`; a row that cannot be learned saves too, with bad="stop". on="ray": shards are learned on a Ray
    cluster and merged (sharded.py).
    """
    saving.check_folder(out)
    if source.is_dir():
        check_outside(out, source)
    found = source_of(source, Given(order, size, columns, labels, bad))
    if not save_every >= 0:
        raise MnemonError(f"save_every is a number of seconds, 0 or more, not {save_every}.")
    given = {name: value for name, value in options.items() if value is not None}
    with alone(out):
        classifier = _classifier(out, given, device, found.features)
        journal = Journal(classifier._beside if classifier.__sklearn_is_fitted__() else {})
        found.begin(classifier, journal, out)
        with shards(on, classifier) as elsewhere, watched() as stop, progress.bars() as add:
            bar = add(found.unit, found.total, unit=found.unit)
            return _Fitting(classifier, journal, found, out, progress, bar, elsewhere).run(save_every, stop)


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Within, no other process fits this model. A folder that was made in vain goes again."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(checkpoint.alone(out, ".lock", timeout=0))
        except Timeout:
            raise MnemonError(
                f"{served.owner(out)} is fitting or serving {out}; wait for it, or give another --out."
            ) from None
        with checkpoint.alone(out, saving.LOCK):
            for part in out.glob(".*.part"):  # what a killed process was writing
                if checkpoint.belongs(part.name) or saving.OTHERS.fullmatch(part.name):
                    part.unlink(missing_ok=True)
        yield


def _classifier(out: Path, given: dict[str, Any], device: str, features: str) -> OnlineClassifier:
    """The model in `out`, or a new one; what was given must be what the model in `out` was made with."""
    if checkpoint.newest(out) == 0:
        made = OnlineClassifier(device=device, **{"features": features} | given)
        if features == "open":  # else a row would be blamed for an option
            parameters.choice(made.get_params(deep=False), (1,))
            parameters.exam(made.exam)
        return made
    classifier = OnlineClassifier.load(out, device=device)
    made = classifier.get_params(deep=False)
    for name, value in given.items():
        if made[name] != value:
            raise other_than_made(out, name, made[name], value)
    return classifier


def save(classifier: OnlineClassifier, journal: Journal, out: Path) -> None:
    """The model with its journal, then the log, which is derived from it."""
    classifier._beside = classifier._beside | journal.tensors()  # a server's note stays
    classifier.save(out)
    write_log(classifier, journal, out)


def write_log(classifier: OnlineClassifier, journal: Journal, out: Path) -> None:
    with whole.explained(f"{out / 'log.json'} could not be written"):
        whole.write(out / "log.json", journal.log(classifier.classes_.tolist()))


class _Fitting:
    """One call of `fit`."""

    def __init__(
        self,
        classifier: OnlineClassifier,
        journal: Journal,
        source: Source,
        out: Path,
        progress: Progress,
        bar: Bar,
        elsewhere: Shards | None,
    ) -> None:
        self.elsewhere = elsewhere
        self.classifier, self.journal, self.source, self.out = classifier, journal, source, out
        self.progress, self.bar = progress, bar
        self.learned = 0
        self.unsaved = False
        self.began = time.monotonic()
        self.budget = Budget(costs(classifier._model), journal.chunks) if self.begun else None

    @property
    def samples(self) -> int:
        return int(self.classifier.n_seen_) if self.begun else 0

    @property
    def begun(self) -> bool:
        return bool(self.classifier.__sklearn_is_fitted__())

    def run(self, save_every: float, stop: Callable[[], int]) -> Fitted:
        next_save = self.began + save_every
        try:
            for lesson in self.source.lessons(self._length, stop, self.bar):
                if self.elsewhere is not None and self.elsewhere.possible:
                    self.elsewhere.add(lesson)
                    self._merge_shards(stop)
                else:
                    self._take(lesson)
                if time.monotonic() >= next_save and not stop():
                    self._save()
                    next_save = time.monotonic() + save_every
            self._merge_shards(stop, all=True)
        except MnemonError as error:  # a row that cannot be learned: what was learned before it is whole
            with contextlib.suppress(MnemonError):  # the first sentence counts
                self._merge_shards(stop, all=True)
            if self.unsaved:
                self._save()
            if isinstance(error, BadRow):
                raise MnemonError(f"{error} {self._kept()}") from None
            raise
        if not self.begun and not stop():
            if self.source.unit == "rows" and not self.source.skipped:
                raise MnemonError(f"{self.source.name} holds no rows, so there is nothing to learn.")
            count = "" if self.source.total is None else f"{self.source.total:,} "
            raise MnemonError(f"none of the {count}{self.source.unit} could be read, so there is nothing to learn.")
        if self.unsaved:
            self._save()
        elif self.begun:
            write_log(self.classifier, self.journal, self.out)  # a process that was killed may not have come to it
        if stop():
            raise Stopped(stop())
        source, labels = self.source, self.classifier.classes_.tolist()
        seconds = time.monotonic() - self.began
        counts = (self.learned, source.known, source.skipped, seconds, self.samples)
        return Fitted(source.unit, *counts, labels, self.journal)

    def _merge_shards(self, stop: Callable[[], int], *, all: bool = False) -> None:
        """Take in what was learned elsewhere, in the order of the source."""
        if self.elsewhere is None:
            return
        try:
            for lessons, other in self.elsewhere.done(stop, all=all):
                if other is None:  # one of its samples is refused: here it is found
                    for lesson in lessons:
                        self._take(lesson)
                    continue
                samples = self.samples
                self.classifier.merge(other)
                for lesson in lessons:
                    samples += len(lesson.y)
                    self._note_learned(lesson, samples, asked=0, right=0)
        except MnemonError:
            self.elsewhere.drop()
            raise

    def _length(self) -> int:
        """A quarter of what was learned: a young model changes fast. Later as many as one question is worth; not more, since
        those of a new class are all wrong until its first chunk is learned. Whole batches, so none is cut. Nothing but what was
        learned decides it: a fit that was stopped and resumed cuts the same chunks."""
        if self.elsewhere is not None and self.elsewhere.possible:
            return min(self.source.longest, sharded.SHARD)  # shards are not predicted before they are learned
        batch: int = self.classifier.batch_size
        return max(min(max(self.samples // 4, LEAST), self.source.longest) // batch, 1) * batch

    def _take(self, lesson: Lesson) -> None:
        """Learn the lesson; of a table, all but the rows the estimator refuses."""
        try:
            self._learn(lesson)
        except MnemonError as error:
            source = self.source
            if lesson.chunk is None or not isinstance(source, TableSource):
                raise
            refused = trial.refused(self.classifier, lesson.x, lesson.y, first=source.stops)
            if not refused:
                raise MnemonError(f"{source.where(lesson.chunk.numbers)}: {error}") from None
            if source.stops and self.begun and (before := min(refused)):
                self._learn(source.cut(lesson, before))
            for place, sentence in sorted(refused.items()):
                source.refuse(lesson.chunk.numbers[place], sentence)
            rest = lesson.chunk.without(set(refused))
            if len(rest):
                self._learn(Lesson(rest.x, rest.y or [], lesson.mark))
            else:
                self.journal.pass_over(lesson.mark)

    def _learn(self, lesson: Lesson) -> None:
        """Test, then train: the honest measure of a model that learns as it goes; as often as it may cost."""
        x, y = lesson.x, lesson.y
        asked, right = spread(len(y)), 0
        if self.budget is None or not self.budget.allows(len(asked)):
            asked = []
        else:
            right = asking.count_right(self.classifier, asking.part(x, asked), [y[i] for i in asked])
        asking.learn(self.classifier, x, y)
        self._note_learned(lesson, self.samples, len(asked), right)

    def _note_learned(self, lesson: Lesson, samples: int, asked: int, right: int) -> None:
        done = Chunk(samples, asked, right, len(self.classifier.classes_))
        self.journal.add(lesson.mark, done)
        if self.budget is None:
            self.budget = Budget(costs(self.classifier._model))
        self.budget.note(done)
        self.learned += len(lesson.y)
        self.unsaved = True
        self.bar.update(note=self._note())

    def _kept(self) -> str:
        """What became of the rows before one that stopped the fit."""
        if self.learned == 1:
            return "The row before it is learned and saved."
        if self.learned:
            return f"The {self.learned:,} rows before it are learned and saved."
        known = self.source.known
        return "Nothing was learned." if not known else f"Nothing was learned beyond the {known:,} rows known already."

    def _save(self) -> None:
        save(self.classifier, self.journal, self.out)
        self.unsaved = False
        rate = self.learned / max(time.monotonic() - self.began, 1e-9)
        samples = names.plural(self.samples, self.source.unit.removesuffix("s"))
        said = [f"saved: {samples} learned", f"{rate:,.0f} per second", self._note()]
        self.progress.line(", ".join(filter(None, said)))

    def _note(self) -> str:
        percent = self.journal.accuracy()
        return "" if percent is None else f"test-then-train accuracy {percent:.1f} %"
