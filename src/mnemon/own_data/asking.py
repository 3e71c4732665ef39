"""What a model says about samples, whether they are arrays or rows with named features, and labels as it knows them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mnemon.data import channels_last
from mnemon.data.layout import unmark
from mnemon.estimator import OnlineClassifier
from mnemon.estimator.frozen import Frozen
from mnemon.learning.labels import Label
from mnemon.readers.labels import labels
from mnemon.runtime.warn import heard

logger = logging.getLogger(__name__)


def part(x: Any, places: list[int]) -> Any:
    """The samples at these places."""
    if isinstance(x, list):
        return [x[i] for i in places]
    values, last = unmark(x)
    return channels_last(values[places]) if last else values[places]


def learn(classifier: OnlineClassifier, x: Any, y: list[Label]) -> None:
    """Learn an array of samples, or a list of dicts; what the model warns of is logged."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if isinstance(x, list):
            classifier.learn_many(x, y)
        else:
            classifier.partial_fit(x, y)
    for warning in said:
        logger.warning(str(warning.message))


def probabilities(classifier: OnlineClassifier, x: Any) -> NDArray[np.float64]:
    """[n, classes]; of dicts without pandas, which `predict_proba_many` needs for its frame."""
    frozen, samples = _asked(classifier, x)
    return frozen.probabilities(samples)


def unsure(classifier: OnlineClassifier, x: Any, least: float | None) -> NDArray[np.bool_]:
    """Where the model is less sure than that, or a sample is far from all it has learned [n]; None: nowhere."""
    if least is None:
        return np.zeros(len(x if isinstance(x, list) else unmark(x)[0]), bool)
    frozen, samples = _asked(classifier, x)
    return frozen.unsure(samples, least)


def _asked(classifier: OnlineClassifier, x: Any) -> tuple[Frozen, Tensor]:
    """What predicts, and samples as it takes them."""
    if not isinstance(x, list):
        return classifier._asked(x)
    model = classifier._fitted()
    frozen = model.frozen()
    return frozen, classifier._read(x, model, frozen.table, named=True)


def best(classifier: OnlineClassifier, x: Any) -> list[Label]:
    """The label of each sample."""
    frozen, samples = _asked(classifier, x)
    found = frozen.scores(samples).argmax(1)
    return [frozen.labels[i] for i in found.tolist()]


def count_right(classifier: OnlineClassifier, x: Any, y: Sequence[Label]) -> int:
    """How many are predicted as they are labelled; `True` is not `1`."""
    with heard(lambda sentence: None):  # what is new here is learned next
        found = best(classifier, x)
    return sum(_same(a, b) for a, b in zip(found, y, strict=True))


def labels_of(classifier: OnlineClassifier, texts: list[str], *, numbers: bool) -> list[Label]:
    """The labels that texts stand for: a model taught from Python may have the number 7 for "7"."""
    known: list[Label] = classifier.classes_.tolist() if classifier.__sklearn_is_fitted__() else []
    return labels(texts, known, numbers=numbers)


def _same(known: Label, given: object) -> bool:
    """Many tables hold whole numbers as floats, which the estimator takes for the ints they equal."""
    if isinstance(given, float):
        return type(known) is int and known == given
    return type(known) is type(given) and known == given
