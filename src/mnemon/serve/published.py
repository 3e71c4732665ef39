"""What predictions are made with: a state of the model that nothing changes any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.estimator import OnlineClassifier
from mnemon.estimator.drift import Drift
from mnemon.estimator.frozen import Frozen
from mnemon.estimator.model import exam_of
from mnemon.learning.labels import Label
from mnemon.serve import samples
from mnemon.serve.samples import Kind


class Rows(NamedTuple):
    """Samples as the model takes them [n, …], and the class of each [n]."""

    x: NDArray[Any]
    y: NDArray[np.int64]


class Published(NamedTuple):
    """`frozen` is None before anything was learned."""

    classifier: OnlineClassifier  # for the checks of samples
    frozen: Frozen | None
    kind: Kind | None
    learned: int
    counts: list[int]  # samples of each class, those held out of learning too
    memory: Rows | None = None  # what is replayed
    exam: Rows | None = None  # what is asked and never learned
    results: NDArray[np.int64] | None = None  # of the exam [classes, 2]: samples asked, and predicted right
    drifts: Sequence[Drift] = ()  # noticed so far

    @property
    def labels(self) -> list[Label]:
        return [] if self.frozen is None else self.frozen.labels

    def probabilities(self, x: NDArray[Any] | list[dict[str, Any]]) -> NDArray[np.float64]:
        """[n, classes]"""
        assert self.frozen is not None
        assert self.kind is not None
        return samples.probabilities(self.classifier, self.frozen, self.kind.names, x)


def publish(classifier: OnlineClassifier, learned: int) -> Published:
    """The state that the last chunk left; to be called by the thread that learns, since class means and the exam are computed
    here, so that predictions do not wait for them."""
    model = classifier._model_or_none()
    if model is None:
        return Published(classifier, None, None, learned, [])
    with model.lock:
        frozen, learner, drifts = model.frozen(), model.learner, model.drifts()
        counts = learner.counts[: len(frozen.labels)].tolist()
        for c, held_out in getattr(exam_of(model.parts), "rows", {}).items():
            counts[c] += len(held_out)
        kept, memory = learner.memory, None
        if kept.size > 0:
            x, y = kept.x[: kept.size].cpu().numpy(), kept.y[: kept.size].cpu().numpy()
            memory = Rows(x[y >= 0], y[y >= 0])  # copies
    results = frozen.exam_results()
    exam = Rows(*(each.numpy() for each in frozen.held_out)) if results.any() else None
    kind = samples.model_kind(classifier)
    known = results if exam is not None else None
    return Published(classifier, frozen, kind, learned, counts, memory, exam, known, drifts)
