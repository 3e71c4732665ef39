"""Learn a folder of images: predict a chunk, learn it, note it, save now and then, go on where it stopped."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import Timeout

from mnemon import checkpoint
from mnemon import files as whole
from mnemon.data import channels_last
from mnemon.data.images import check_size
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier, saving
from mnemon.image_folder import folder as folders
from mnemon.image_folder.folder import File
from mnemon.image_folder.images import ImageArray, ImageModel
from mnemon.image_folder.journal import Chunk, Journal
from mnemon.image_folder.places import check_outside
from mnemon.runtime.progress import SILENT, Bar, Progress
from mnemon.runtime.signals import Stopped, watched

logger = logging.getLogger(__name__)
SIZE = 32  # pixels a side: what the reduced ResNet-18 was made for, and a CPU learns in good time
LEAST, MOST = 10, 100  # images of a chunk


class Fitted(NamedTuple):
    """What came of one call."""

    learned: int  # files, now
    known: int  # files of this folder that had been learned before
    skipped: int  # files that could not be read
    samples: int  # all that the model has ever learned
    labels: list[Any]
    journal: Journal


class Read(NamedTuple):
    """A file that is about to be learned."""

    digest: bytes
    label: str
    image: ImageArray


def fit(
    folder: Path,
    out: Path,
    *,
    order: str = "shuffled",
    size: int | None = None,
    save_every: float = 30.0,
    device: str = "auto",
    progress: Progress = SILENT,
    **options: Any,
) -> Fitted:
    """Learn each file of the class folders once, with a new model or the one in `out`; those it knows are passed over.

    Options are OnlineClassifier's; None stands for the model's own, or the default of a new one. SIGINT and SIGTERM save
    and raise `Stopped`.
    """
    saving.check_folder(out)
    check_outside(out, folder)
    found = folders.files_of(folder)  # mistakes are found before anything is written
    folders.check_order(order)
    check_size(size)
    if not save_every >= 0:
        raise MnemonError(f"save_every is a number of seconds, 0 or more, not {save_every}.")
    given = {name: value for name, value in options.items() if value is not None}
    with _alone(out):
        model, journal = _model(out, given, size, device)
        ordered = folders.in_order(found, order, model.classifier.seed)
        with watched() as stop, progress.bars() as add:
            fitting = _Fitting(model, journal, out, progress, add("images", len(found)))
            return fitting.run(ordered, save_every, stop)


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Within, no other process fits this model. A folder that was made in vain goes again."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(checkpoint.alone(out, ".lock", timeout=0))
        except Timeout:
            raise MnemonError(f"another process is fitting {out}; wait for it, or give another --out.") from None
        with checkpoint.alone(out, saving.LOCK):
            for part in out.glob(".*.part"):  # what a killed process was writing
                if checkpoint.belongs(part.name) or saving.OTHERS.fullmatch(part.name):
                    part.unlink(missing_ok=True)
        yield


def _model(out: Path, given: dict[str, Any], size: int | None, device: str) -> tuple[ImageModel, Journal]:
    """The model in `out`, or a new one; what was given must be what the model in `out` was made with."""
    if checkpoint.newest(out) == 0:
        return ImageModel(OnlineClassifier(device=device, **given), size or SIZE, channels=3), Journal()
    model = ImageModel.load(out, device)
    asked = given | ({} if size is None else {"size": size})
    made = model.classifier.get_params(deep=False) | {"size": model.size}
    for name, value in asked.items():
        if made[name] != value:
            was = "its default" if made[name] is None else made[name]
            raise MnemonError(
                f"the model {out} was made with {name} {was}, not {value}; leave the option out to go on with it, or give "
                "another --out to start a new one."
            )
    return model, Journal(model.classifier._beside)


class _Fitting:
    """One call of `fit`."""

    def __init__(self, model: ImageModel, journal: Journal, out: Path, progress: Progress, bar: Bar) -> None:
        self.model, self.journal, self.out, self.progress, self.bar = model, journal, out, progress, bar
        self.learned = self.known = self.skipped = 0
        self.unsaved = False

    @property
    def samples(self) -> int:
        return int(self.model.classifier.n_seen_) if self.begun else 0

    @property
    def begun(self) -> bool:
        return bool(self.model.classifier.__sklearn_is_fitted__())

    def run(self, files: list[File], save_every: float, stop: Callable[[], int]) -> Fitted:
        next_save = time.monotonic() + save_every
        for chunk in self._chunks(files, stop):
            self._learn(chunk)
            if time.monotonic() >= next_save and not stop():
                self._save()
                next_save = time.monotonic() + save_every
        if not self.begun and not stop():
            raise MnemonError(f"none of the {len(files)} images could be read, so there is nothing to learn.")
        if self.unsaved:
            self._save()
        elif self.begun:
            self._write_log()  # a process that was killed may not have come to it
        if stop():
            raise Stopped(stop())
        labels = self.model.classifier.classes_.tolist()
        return Fitted(self.learned, self.known, self.skipped, self.samples, labels, self.journal)

    def _chunks(self, files: list[File], stop: Callable[[], int]) -> Iterator[list[Read]]:
        """Chunks of files not learned yet. Their ends depend on what was learned alone, so that a fit that was stopped
        and resumed cuts the same ones; a chunk that is being read when a signal comes is left for then."""
        chunk: list[Read] = []
        for file in files:
            if stop():
                return
            self.bar.advance(1)
            read = self._read(file)
            if read is not None:
                chunk.append(read)
            if len(chunk) == self._length():
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def _length(self) -> int:
        """A quarter of what was learned: a young model changes fast, and is measured often. Each measurement costs the
        class means of the whole memory, so it is made for many images at once; not for too many, since those of a new class
        are all wrong until its first chunk is learned. Whole batches, so none is cut."""
        batch: int = self.model.classifier.batch_size
        return max(min(max(self.samples // 4, LEAST), MOST) // batch, 1) * batch

    def _read(self, file: File) -> Read | None:
        """None for a file that was learned before, and with a warning for one that cannot be read."""
        try:
            digest = folders.digest(file)
            if digest in self.journal:
                self.known += 1
                return None
            return Read(digest, file.label, self.model.read(file.path))
        except MnemonError as error:
            self.skipped += 1
            logger.warning(f"skipped: {error}")
            return None

    def _learn(self, chunk: list[Read]) -> None:
        """Test, then train: the honest measure of a model that learns as it goes."""
        x = channels_last(np.stack([read.image for read in chunk]))
        begun, classifier = self.begun, self.model.classifier
        y = self.model.labels([read.label for read in chunk]) if begun else [read.label for read in chunk]
        right = round(classifier.score(x, y) * len(y)) if begun else 0
        classifier.partial_fit(x, y)
        done = Chunk(self.samples, len(y) if begun else 0, right, len(classifier.classes_))
        self.journal.add([read.digest for read in chunk], done)
        self.learned += len(chunk)
        self.unsaved = True
        self.bar.update(note=self._note())

    def _save(self) -> None:
        classifier = self.model.classifier
        classifier._beside = self.journal.tensors()
        classifier.save(self.out)
        self.unsaved = False
        self._write_log()
        self.progress.line(", ".join(filter(None, [f"saved: {self.samples:,} images learned", self._note()])))

    def _note(self) -> str:
        percent = self.journal.accuracy()
        return "" if percent is None else f"test-then-train accuracy {percent:.1f} %"

    def _write_log(self) -> None:
        labels = self.model.classifier.classes_.tolist()
        with whole.explained(f"{self.out / 'log.json'} could not be written"):
            whole.write(self.out / "log.json", self.journal.log(labels))
