"""Snapshots of a served model: its checkpoints, each with the place in the journal that it stands for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mnemon import checkpoint
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier, saving
from mnemon.estimator.served import NOTE
from mnemon.serve.events import NoSpace

logger = logging.getLogger(__name__)
CURVE = "served_curve"  # saved beside the model: the points of its learning curve
BEST = "served_best"  # saved beside the model: [asked, right] of the best exam of each class


class Place(NamedTuple):
    """Where in the journal a snapshot stands."""

    number: int  # of the checkpoint; 0: before anything was learned
    seq: int  # events up to here are in it, but for samples that wait
    learned: int  # samples up to here are in it


class Snapshot(NamedTuple):
    place: Place
    classifier: OnlineClassifier
    curve: list[list[int]]
    best: list[list[int]]
    ours: bool  # saved by a server; else somebody else had the model in between
    noted: bool = True  # it says where in the journal it stands; else nothing of the journal is in it


def numbers(folder: Path) -> Iterator[int]:
    """Of the snapshots, the newest first."""
    number = checkpoint.newest(folder)
    while number:
        yield number
        number = checkpoint.before(folder, number)


def load(folder: Path, number: int, device: Any) -> Snapshot:
    """One snapshot; a model that was never served stands at the beginning of a journal."""
    found = saving.load(folder, OnlineClassifier._get_param_names(), device=device, number=number)
    classifier = OnlineClassifier._restored(folder, found)
    note, curve, best = (found.beside.get(name) for name in (NOTE, CURVE, BEST))
    for tensor, shape in ((note, (3,)), (curve, (_length(curve), 3)), (best, (_length(best), 2))):
        if tensor is not None and (tensor.dtype != torch.int64 or tensor.shape != shape):
            raise MnemonError(f"what the model {folder} says about its journal is damaged.")
    if note is None:
        return Snapshot(Place(number, 0, int(classifier.n_seen_)), classifier, [], [], ours=False, noted=False)
    seq, learned, saved_as = note.tolist()
    ours = saved_as == number
    points = [] if curve is None else curve.tolist()
    bests = [] if best is None or not ours else best.tolist()  # else its classes may be others
    return Snapshot(Place(number, seq, learned), classifier, points, bests, ours=ours)


def _length(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None or tensor.ndim == 0 else len(tensor)


def readable(folder: Path, device: Any) -> Iterator[Snapshot]:
    """Those that can be loaded, the newest first; a damaged one is named."""
    errors = []
    for number in numbers(folder):
        try:
            yield load(folder, number, device)
        except MnemonError as error:
            errors.append(str(error))
            logger.warning(f"snapshot {number} is passed over: {error}")
    if errors:
        raise MnemonError(errors[0])


def save(
    folder: Path, classifier: OnlineClassifier, place: Place, curve: list[list[int]], best: NDArray[np.int64]
) -> None:
    """Write a snapshot; those with this number or a higher one, which are not to be used any more, go. `best` has a row for
    each of the classifier's classes."""
    note = {
        NOTE: torch.tensor([place.seq, place.learned, place.number]),
        CURVE: torch.tensor(curve, dtype=torch.int64).reshape(-1, 3),
        BEST: torch.from_numpy(best),
    }
    beside = classifier._beside | note  # what others noted stays
    private = 0o600  # it holds what users sent
    try:
        saving.save(folder, classifier._given, classifier._model, beside, number=place.number, mode=private)
    except MnemonError as error:
        raise NoSpace(str(error)) from None
