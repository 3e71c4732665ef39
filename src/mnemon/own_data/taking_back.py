"""Models on disk changed as wholes: a class is forgotten, several models become one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mnemon import checkpoint
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier, saving
from mnemon.estimator.taking_back import NothingLeft
from mnemon.learning.labels import Label
from mnemon.own_data.asking import labels_of
from mnemon.own_data.fit import alone, save
from mnemon.own_data.journal import Journal

logger = logging.getLogger(__name__)


class Merged(NamedTuple):
    samples: int
    labels: list[Label]


def forget(out: Path, label: str) -> Label:
    """Take a class back from the model in `out` and save it; returns the label as the model had it.

    The journal keeps the files and rows of the class: what was taken back is not learned again by the same command.
    """
    if checkpoint.newest(out) == 0:
        raise MnemonError(f"{out} holds no saved model.")
    with alone(out):
        classifier = OnlineClassifier.load(out)
        journal = Journal(classifier._beside)
        (known,) = labels_of(classifier, [label], numbers=False)
        try:
            classifier.forget(label=known)
        except NothingLeft:
            raise MnemonError(
                f"{known!r} is the only class of {out}, so nothing would be left; delete the folder {out} instead."
            ) from None
        save(classifier, journal, out)
        return known


def merge(models: Sequence[Path], out: Path) -> Merged:
    """Make one model in the new folder `out` of several, which stay as they are. Exact, and so for statistics alone."""
    if len(models) < 2:
        raise MnemonError("name at least two models to merge.")
    if checkpoint.newest(out) > 0:
        raise MnemonError(f"{out} holds a model already; give a new --out.")
    saving.check_folder(out)
    for place, path in enumerate(models):
        if path.resolve() in {other.resolve() for other in models[:place]}:
            raise MnemonError(f"{path} is named twice: its samples would count twice.")
    with alone(out):
        merged, journal = _open(models[0])
        for path in models[1:]:
            other, its = _open(path)
            both, doubtful = journal.common(its)
            if both:
                raise MnemonError(
                    f"{both:,} of the files that {path} learned were learned by a model before it too, and would count twice; "
                    "forget them in one of the two first (OnlineClassifier.forget)."
                )
            if doubtful:
                logger.warning(
                    f"{path} and a model before it learned tables of the same name; if it was one, its rows count twice."
                )
            journal.join(its)
            try:
                merged.merge(other)
            except MnemonError as error:
                raise MnemonError(f"{path} cannot be merged with {models[0]}: {error}") from None
        save(merged, journal, out)
        return Merged(merged.n_seen_, merged.classes_.tolist())


def _open(path: Path) -> tuple[OnlineClassifier, Journal]:
    classifier = OnlineClassifier.load(path)
    return classifier, Journal(classifier._beside)
