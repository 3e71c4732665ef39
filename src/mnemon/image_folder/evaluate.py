"""How good a model is on a folder per class: accuracy, per class, who is taken for whom."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.errors import MnemonError
from mnemon.image_folder import folder as folders
from mnemon.image_folder.images import ImageModel
from mnemon.image_folder.predict import predict
from mnemon.runtime.progress import SILENT, Progress

logger = logging.getLogger(__name__)


class ClassResult(NamedTuple):
    label: str
    images: int
    right: int
    predicted: int  # images of any class that were taken for this one
    learned: bool  # a class the model never met cannot be predicted
    taken_for: str | None  # the class its images are most often mistaken for

    @property
    def accuracy(self) -> float:
        """Percent of its images that are recognised (recall)."""
        return 100 * self.right / self.images

    @property
    def precision(self) -> float | None:
        """Percent right of those taken for it; None if none was."""
        return 100 * self.right / self.predicted if self.predicted else None


class Evaluation(NamedTuple):
    labels: list[str]  # of the rows and columns: all classes of the folder and of the model, by name
    matrix: NDArray[np.int64]  # [true, predicted], images
    learned: list[bool]  # whether the model knows the label
    skipped: int  # files that could not be read

    @property
    def images(self) -> int:
        return int(self.matrix.sum())

    @property
    def right(self) -> int:
        return int(self.matrix.trace())

    @property
    def accuracy(self) -> float:
        return 100 * self.right / self.images

    def classes(self) -> list[ClassResult]:
        """Those with images in the folder."""
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
            "images": self.images,
            "right": self.right,
            "accuracy": self.accuracy,
            "skipped": self.skipped,
            "classes": [c._asdict() | {"accuracy": c.accuracy, "precision": c.precision} for c in self.classes()],
            "confusion": {"labels": self.labels, "true_by_predicted": self.matrix.tolist()},
        }


def evaluate(model: ImageModel, folder: Path, *, progress: Progress = SILENT) -> Evaluation:
    """Predict every image of the class folders. A class the model never met counts as wrong; a file that cannot be read
    does not count; warnings name it, and files that are no images of a class."""
    files = folders.files_of(folder)
    counts: Counter[tuple[str, str]] = Counter()
    skipped = 0
    with progress.stage(f"evaluate {folder.name}", len(files)) as bar:
        for file, predicted in zip(files, predict(model, [file.path for file in files]), strict=True):
            bar.advance(1)
            if predicted.error is None:
                counts[file.label, str(predicted.guesses[0].label)] += 1
            else:
                skipped += 1
                logger.warning(f"skipped: {predicted.error}")
    if not counts:
        raise MnemonError(f"none of the {len(files)} images could be read, so there is nothing to evaluate.")
    known = {str(label) for label in model.classifier.classes_.tolist()}
    labels = sorted(known | {label for label, _ in counts}, key=_natural)
    at = {label: i for i, label in enumerate(labels)}
    matrix = np.zeros((len(labels), len(labels)), np.int64)
    for (true, guess), n in counts.items():
        matrix[at[true], at[guess]] = n
    return Evaluation(labels, matrix, [label in known for label in labels], skipped)


def _natural(label: str) -> tuple[int, str]:
    """2 before 10."""
    return (int(label), "") if label.isascii() and label.isdecimal() and len(label) < 19 else (2**63, label)
