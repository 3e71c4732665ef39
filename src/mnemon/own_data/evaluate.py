"""How good a model is on labelled samples: accuracy, accuracy per class, confusion matrix."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier
from mnemon.learning.labels import Label
from mnemon.own_data import folder as folders
from mnemon.own_data.images import ImageModel
from mnemon.own_data.journal import Journal, table_key
from mnemon.own_data.predict import Predicted, predict, predict_rows
from mnemon.own_data.readers.reader import Reader, holds
from mnemon.render import names
from mnemon.runtime.progress import SILENT, Bar, Progress

logger = logging.getLogger(__name__)


class ClassResult(NamedTuple):
    label: str
    samples: int
    right: int
    predicted: int  # samples of any class that were taken for this one
    learned: bool  # a class the model never met cannot be predicted
    taken_for: str | None  # the class its samples are most often mistaken for

    @property
    def accuracy(self) -> float:
        """Percent of its samples that are recognised (recall)."""
        return 100 * self.right / self.samples

    @property
    def precision(self) -> float | None:
        """Percent right of those taken for it; None if none was."""
        return 100 * self.right / self.predicted if self.predicted else None


class Evaluation(NamedTuple):
    labels: list[str]  # of the rows and columns: all classes of the samples and of the model, by name
    matrix: NDArray[np.int64]  # [true, predicted], samples
    learned: list[bool]  # whether the model knows the label
    skipped: int  # samples that could not be read
    unit: str = "image"  # what a sample is
    known: int = 0  # samples that `mnemon fit` gave the model before

    @property
    def samples(self) -> int:
        return int(self.matrix.sum())

    @property
    def right(self) -> int:
        return int(self.matrix.trace())

    @property
    def accuracy(self) -> float:
        return 100 * self.right / self.samples

    def classes(self) -> list[ClassResult]:
        """Those with samples."""
        found = []
        for i, label in enumerate(self.labels):
            row = self.matrix[i]
            if row.sum() == 0:
                continue
            wrong = row.copy()
            wrong[i] = 0
            worst = self.labels[int(wrong.argmax())] if wrong.any() else None
            counts = (int(row.sum()), int(row[i]), int(self.matrix[:, i].sum()))
            found.append(ClassResult(label, *counts, self.learned[i], worst))
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            f"{self.unit}s": self.samples,
            "right": self.right,
            "accuracy": self.accuracy,
            "skipped": self.skipped,
            "known": self.known,
            "classes": [self._class(c) for c in self.classes()],
            "confusion": {"labels": self.labels, "true_by_predicted": self.matrix.tolist()},
        }

    def _class(self, c: ClassResult) -> dict[str, Any]:
        counted = {f"{self.unit}s" if name == "samples" else name: value for name, value in c._asdict().items()}
        return counted | {"accuracy": c.accuracy, "precision": c.precision}


def evaluate(model: ImageModel, folder: Path, *, progress: Progress = SILENT) -> Evaluation:
    """Predict every image of the class folders. A class the model never met counts as wrong; a file that cannot be read
    does not count; warnings name it, and files that are no images of a class."""
    files, journal = folders.files_of(folder), Journal(model.classifier._beside)
    with progress.stage(f"evaluate {folder.name}", len(files)) as bar:
        found = predict(model, [file.path for file in files])
        result = _counted(
            model.classifier, "image", bar, ((file.label, each) for file, each in zip(files, found, strict=True))
        )
    return _told(result._replace(known=sum(_knows(journal, file) for file in files)))


def evaluate_rows(
    classifier: OnlineClassifier, reader: Reader, name: str, *, progress: Progress = SILENT
) -> Evaluation:
    """The same for the rows of a table or array."""
    with progress.stage(f"evaluate {name}", unit="rows") as bar:
        found = predict_rows(classifier, reader, labelled=True)
        result = _counted(classifier, "row", bar, ((each.true, each) for each in found))
    read = Journal(classifier._beside).tables.get(table_key(reader.path), ())
    return _told(result._replace(known=max((at.rows for at in read if holds(reader, at)), default=0)))


def _knows(journal: Journal, file: folders.File) -> bool:
    try:
        return folders.digest(file) in journal
    except MnemonError:  # it was named when it was to be predicted
        return False


def _told(found: Evaluation) -> Evaluation:
    if found.known:
        samples = names.plural(found.samples + found.skipped, found.unit)
        logger.warning(
            f"the model was fitted with {found.known:,} of these {samples}: its accuracy on them says little about new ones."
        )
    return found


def _counted(
    classifier: OnlineClassifier, unit: str, bar: Bar, found: Iterable[tuple[Label | None, Predicted]]
) -> Evaluation:
    counts: Counter[tuple[str, str]] = Counter()
    skipped = 0
    for true, predicted in found:
        bar.advance(1)
        if predicted.error is None:
            counts[_text(true), str(predicted.guesses[0].label)] += 1
        else:
            skipped += 1
            logger.warning(f"skipped: {predicted.error}")
    if not counts and not skipped:
        raise MnemonError(f"there are no {unit}s, so there is nothing to evaluate.")
    if not counts:
        raise MnemonError(f"none of the {skipped:,} {unit}s could be read, so there is nothing to evaluate.")
    known = {str(label) for label in classifier.classes_.tolist()}
    labels = sorted(known | {label for label, _ in counts}, key=_natural)
    at = {label: i for i, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)), np.int64)
    for (true_label, guess), n in counts.items():
        matrix[at[true_label], at[guess]] = n
    return Evaluation(labels, matrix, [label in known for label in labels], skipped, unit)


def _text(label: object) -> str:
    """As the labels of the model are written: many tables hold whole numbers as floats."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _natural(label: str) -> tuple[int, str]:
    """2 before 10."""
    return (int(label), "") if label.isascii() and label.isdecimal() and len(label) < 19 else (2**63, label)
