"""What `fit` learns from: a folder of class folders, or a table or array; each hands out lessons and knows what was learned."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from mnemon.data import channels_last
from mnemon.data.images import check_size
from mnemon.errors import MnemonError, check_known
from mnemon.estimator import OnlineClassifier
from mnemon.learning.labels import Label
from mnemon.own_data import folder as folders
from mnemon.own_data import values
from mnemon.own_data.asking import labels_of
from mnemon.own_data.folder import File
from mnemon.own_data.images import ImageArray, ImageModel
from mnemon.own_data.journal import Journal, Mark, table_key
from mnemon.own_data.readers import is_array, is_table, open_reader
from mnemon.own_data.readers.reader import START, Changed, Chunk, Position, Reader, holds
from mnemon.readers.columns import MISSING, NONE, Columns
from mnemon.runtime.progress import Bar

logger = logging.getLogger(__name__)
SIZE = 32  # pixels a side: what the reduced ResNet-18 was made for, and a CPU learns in good time
BAD = ("stop", "skip")  # what a row that cannot be learned does


class BadRow(MnemonError):
    """A row cannot be learned, and that is to stop the fit."""


class Lesson(NamedTuple):
    """A chunk to be learned."""

    x: Any  # images [n, height, width, channels], an array [n, …] or a list of dicts
    y: list[Label]
    mark: Mark  # what the journal notes once it is learned
    chunk: Chunk | None = None  # of a table: the rows, each of which may be refused


class Given(NamedTuple):
    """What the command says about the source; None and () where it says nothing."""

    order: str | None = None
    size: int | None = None
    columns: Columns = NONE
    labels: Path | None = None
    bad: str | None = None


class Source(Protocol):
    unit: str  # what a sample is: "images", "rows"
    name: str  # of the folder or file
    longest: int  # samples of a chunk
    features: str  # of a new model: "open" where samples have named features, which may be missing or come later
    total: int | None  # samples, where it is known
    known: int  # samples that had been learned before
    skipped: int  # samples that could not be read

    def begin(self, classifier: OnlineClassifier, journal: Journal, out: Path) -> None:
        """Prepare for this model, which may have learned something; what does not fit is a sentence."""

    def lessons(self, length: Callable[[], int], stop: Callable[[], int], bar: Bar) -> Iterator[Lesson]:
        """What was not learned yet. `length` is asked once for each lesson, when the one before is learned."""


def source_of(path: Path, given: Given) -> Source:
    """The source at `path`; mistakes in it are found before anything is written."""
    if path.is_dir() or not (path.exists() or is_table(path)):
        return FolderSource(path, given)
    return TableSource(path, given)


class FolderSource:
    """Each image of the class folders, in an order of its own; a file is known by class, name and content."""

    unit = "images"
    longest = 250
    features = "fixed"

    def __init__(self, folder: Path, given: Given) -> None:
        if given.columns != NONE or given.labels or given.bad:
            raise MnemonError(
                f"{folder} is a folder, whose sub-folders are the classes: --label, --labels, --id, --ignore, --category, "
                "--missing, --separator and --bad are for tables and arrays."
            )
        self.name = str(folder)
        self._files = folders.files_of(folder)
        self.order, self._size = given.order or "shuffled", given.size
        folders.check_order(self.order)
        check_size(given.size)
        self.total: int | None = len(self._files)
        self.known = self.skipped = 0

    def begin(self, classifier: OnlineClassifier, journal: Journal, out: Path) -> None:
        self._journal = journal
        self._files = folders.in_order(self._files, self.order, classifier.seed)
        if not classifier.__sklearn_is_fitted__():
            self.model = ImageModel(classifier, self._size or SIZE, channels=3)
            return
        self.model = ImageModel.of(classifier, out)
        if self._size not in (None, self.model.size):
            raise other_than_made(out, "size", self.model.size, self._size)

    def lessons(self, length: Callable[[], int], stop: Callable[[], int], bar: Bar) -> Iterator[Lesson]:
        """A chunk that is being read when a signal comes is left for the next call."""
        read: list[tuple[bytes, str, ImageArray]] = []
        wanted = length()
        for file in self._files:
            if stop():
                return
            bar.advance(1)
            found = self._read(file)
            if found is not None:
                read.append(found)
            if len(read) == wanted:
                yield self._lesson(read)
                read, wanted = [], length()
        if read:
            yield self._lesson(read)

    def _lesson(self, read: list[tuple[bytes, str, ImageArray]]) -> Lesson:
        digests, names, images = zip(*read, strict=True)
        y = labels_of(self.model.classifier, list(names), numbers=False)
        return Lesson(channels_last(np.stack(images)), y, Mark(files=digests))

    def _read(self, file: File) -> tuple[bytes, str, ImageArray] | None:
        """None for a file that was learned before, and with a warning for one that cannot be read."""
        try:
            digest = folders.digest(file)
            if digest in self._journal:
                self.known += 1
                return None
            return digest, file.label, self.model.read(file.path)
        except MnemonError as error:
            self.skipped += 1
            logger.warning(f"skipped: {error}")
            return None


class TableSource:
    """The rows of a table or array behind those that were learned; a table is known by its name, its rows by their content."""

    unit = "rows"
    longest = 1000

    def __init__(self, path: Path, given: Given) -> None:
        self.name = str(path)
        self.features = "fixed" if is_array(path) else "open"
        for name, value in (("order", given.order), ("size", given.size)):
            if value is not None:
                raise MnemonError(f"--{name} is for folders of images; the rows of {path} are learned as they come.")
        bad = given.bad or "stop"
        check_known("--bad", bad, BAD)
        self.stops, self._stopped = bad == "stop", False
        self.path, self._given, self._labels = path, given.columns, given.labels
        self._reader = open_reader(path, given.columns, given.labels)
        self.total: int | None = None
        self.known = self.skipped = 0

    def begin(self, classifier: OnlineClassifier, journal: Journal, out: Path) -> None:
        self._classifier, self._journal = classifier, journal
        self._reader = with_kept(self._reader, self.path, self._given, self._labels, journal)
        refuse_images(classifier, out, self.path)

    def lessons(self, length: Callable[[], int], stop: Callable[[], int], bar: Bar) -> Iterator[Lesson]:
        key = table_key(self.path)
        start = self._start(sorted(self._journal.tables.get(key, ()), reverse=True))
        self.known = start.rows
        bar.advance(start.rows)
        try:
            for chunk in self._reader.chunks(start, length, self.refuse, labelled=True):
                if stop():
                    return
                if self._stopped and not self._classifier.__sklearn_is_fitted__():
                    continue  # the first rows decide what the features are: no model begins with a part of its first chunk
                bar.update(total=round(chunk.position.rows / chunk.done))
                if not is_array(self.path):
                    self._journal.columns = kept_with(self._given, self._journal)
                lesson, refused = self._lesson(chunk, Mark(table=key, before=start, position=chunk.position))
                if refused and self.stops:
                    first = min(refused)
                    if first and self._classifier.__sklearn_is_fitted__():
                        yield self.cut(lesson, first)
                for place, sentence in sorted(refused.items()):
                    self.refuse(chunk.numbers[place], sentence)
                if refused and lesson.chunk is not None:
                    kept = lesson.chunk.without(set(refused))
                    lesson = Lesson(kept.x, kept.y or [], lesson.mark, kept)
                if not lesson.y:
                    continue  # the next one begins where this one did
                start = chunk.position
                yield lesson
                bar.update(completed=chunk.position.rows)
        except Changed as error:
            raise MnemonError(
                f"{error}: new rows belong at the end of a file that was learned, and a file with other rows needs another "
                "name; nothing was learned from it."
            ) from None

    def _lesson(self, chunk: Chunk, mark: Mark) -> tuple[Lesson, dict[int, str]]:
        """A chunk as it is learned; and which of its rows cannot be, and why."""
        assert chunk.y is not None, "labels were asked for"
        y = chunk.y if self._reader.typed else labels_of(self._classifier, list(map(str, chunk.y)), numbers=True)
        found, refused = values.read(replace(chunk, y=y), self._reader, self._classifier, learning=True)
        return Lesson(found.x, y, mark, found), refused

    def _start(self, positions: list[Position]) -> Position:
        """Where it was read to: the furthest of several, which tables of one name in merged models have."""
        if len(positions) > 1:
            positions = [at for at in positions if holds(self._reader, at)] or positions
        return positions[0] if positions else START

    def where(self, numbers: list[int]) -> str:
        """Which rows these are, to a person."""
        key, first, last = self._reader.key, numbers[0], numbers[-1]
        return f"{self.path}, " + (f"{key} {first:,}" if first == last else f"{key}s {first:,} to {last:,}")

    def cut(self, lesson: Lesson, rows: int) -> Lesson:
        """The first rows of a lesson, marked as far as they go."""
        assert lesson.chunk is not None, "a table hands out rows"
        (again,) = itertools.islice(
            self._reader.chunks(lesson.mark.before, lambda: rows, lambda *_: None, labelled=True), 1
        )
        kept = replace(lesson.chunk.without(set(range(rows, len(lesson.y)))), position=again.position)
        return Lesson(kept.x, kept.y or [], lesson.mark._replace(position=again.position), kept)

    def refuse(self, number: int, sentence: str) -> None:
        """A row cannot be learned; raises BadRow if that is to stop the fit."""
        where = f"{self.where([number])}: {sentence.removesuffix('.')}"
        if self.stops:
            self._stopped = True
            raise BadRow(f"{where}; repair it, or leave such rows out with --bad skip.")
        self.skipped += 1
        logger.warning(f"skipped: {where}.")


def kept_with(given: Columns, journal: Journal) -> Columns:
    """What the command says of the columns, and where it says nothing, what was said of the tables before."""
    kept = journal.columns
    return Columns(
        given.label or kept.label,
        given.id or kept.id,
        given.ignore or kept.ignore,
        given.category or kept.category,
        next((each for each in (given.missing, kept.missing) if each is not None), MISSING),
        given.separator or kept.separator,
        kept.strip,
    )


def with_kept(reader: Reader, path: Path, given: Columns, labels: Path | None, journal: Journal) -> Reader:
    """The reader with these columns, as far as they are given or the table has them."""
    if is_array(path):
        return reader
    columns = kept_with(given, journal)

    def there(name: str | None) -> bool:
        return name is not None and (reader.names is None or name in reader.names)

    name = columns.id if given.id or there(columns.id) else None
    ignore = given.ignore or tuple(filter(there, columns.ignore))
    category = given.category or tuple(filter(there, columns.category))
    found = open_reader(path, columns._replace(id=name, ignore=ignore, category=category), labels)
    if found.notice is not None:
        logger.warning(found.notice)
    before = journal.columns.label
    if before != columns.label and there(before) and before not in (name, *ignore):
        logger.warning(
            f"{path}: {before!r} held the labels of the tables before, and is a feature here, since the labels are in "
            f"{columns.label!r}; --ignore {before} leaves it out."
        )
    return found


def refuse_images(classifier: OnlineClassifier, folder: Path, path: Path) -> None:
    """Refuse a table for a model of images. An array may hold images."""
    fitted = classifier.__sklearn_is_fitted__()
    if fitted and len(classifier._model.inputs.shape) != 1 and not is_array(path):
        raise MnemonError(f"the model {folder} takes images, not the rows of a table.")


def other_than_made(out: Path, name: str, made: Any, value: Any) -> MnemonError:
    was = "its default" if made is None else made
    return MnemonError(
        f"the model {out} was made with {name} {was}, not {value}; leave the option out to go on with it, or give "
        "another --out to start a new one."
    )
