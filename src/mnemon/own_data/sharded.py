"""Shards of a source learned on a Ray cluster and merged: slda's statistics of all samples are the sum of those of the shards.

This process reads the samples and has the model. Its features are fixed first: images wait for their dictionary, which all
shards then share (`OnlineClassifier.fresh`). Shards are merged in the order in which they were read, so the model does not
depend on which of them was quick, and what is saved is always a beginning of the source.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from mnemon.errors import MnemonError, check_known
from mnemon.estimator import OnlineClassifier
from mnemon.experiments.recording import versions
from mnemon.learning.streaming import StreamingLearner
from mnemon.own_data import asking
from mnemon.own_data.sources import Lesson
from mnemon.runtime import ray_cluster
from mnemon.runtime.device import choose_device

SHARD = 2000  # samples: what a shard sends back does not grow with them
AHEAD = 2  # shards under way for each core: one is learned, one waits
MOST_BYTES = 2**30  # of samples under way: they stay here until their shard is merged
LOOK, PATIENCE = 0.2, 60.0  # seconds between two looks for a signal; those that shards under way have after one
PLACES = ("ray",)


class Shard(NamedTuple):
    lessons: list[Lesson]
    learned: Any  # the reference of a classifier, or of a sentence


class Shards:
    """Lessons that are learned elsewhere, and come back in their order."""

    def __init__(self, ray: Any, classifier: OnlineClassifier) -> None:
        self.ray, self.classifier = ray, classifier
        self.blank: Any = None  # the reference of a classifier with the features and nothing learned
        self.reading: list[Lesson] = []
        self.under_way: deque[Shard] = deque()
        self.most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.learn = ray.remote(num_cpus=1)(_learn)

    @property
    def possible(self) -> bool:
        """Whether the features are fixed; until then lessons are learned here."""
        if self.blank is None and self.classifier.__sklearn_is_fitted__():
            learner = self.classifier._model.learner
            if isinstance(learner, StreamingLearner) and learner.fitted:
                self.blank = self.ray.put(self.classifier.fresh())
        return self.blank is not None

    def add(self, lesson: Lesson) -> None:
        self.reading.append(lesson)
        if sum(len(each.y) for each in self.reading) >= SHARD:
            self._submit()

    def done(
        self, stop: Callable[[], int], *, all: bool = False
    ) -> Iterator[tuple[list[Lesson], OnlineClassifier | None]]:
        """The shards that must be waited for before more are added, or all of them; None for one that cannot be learned as it
        is, because of a sample in it. Once stopped, what is not learned in time is left out, and read again by the next
        command."""
        if all and self.reading and not stop():
            self._submit()
        while self.under_way and (all or len(self.under_way) >= self.most):
            if not self._is_ready(self.under_way[0].learned, stop):
                self.drop()
                return
            lessons, reference = self.under_way.popleft()
            try:
                kind, found = self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                why = " ".join(str(error).split())[-200:]
                raise MnemonError(
                    f"a shard could not be learned on Ray ({why}); what was merged is kept, and the same command continues."
                ) from None
            if kind == "refused":
                raise MnemonError(found)
            yield lessons, found

    def drop(self) -> None:
        """Leave out what was not merged: behind a shard that failed it would be no beginning of the source."""
        for shard in self.under_way:
            self.ray.cancel(shard.learned)
        self.under_way.clear()
        self.reading = []

    def _is_ready(self, reference: Any, stop: Callable[[], int]) -> bool:
        """Wait for a shard; False if it is not learned in time after a signal."""
        end = None
        while not self.ray.wait([reference], timeout=LOOK)[0]:
            if stop():
                end = time.monotonic() + PATIENCE if end is None else end
                if time.monotonic() > end:
                    return False
        return True

    def _submit(self) -> None:
        samples = [(lesson.x, lesson.y) for lesson in self.reading]
        size = sum(getattr(x, "nbytes", 0) for x, _ in samples)
        self.most = max(2, min(self.most, MOST_BYTES // max(1, size)))
        self.under_way.append(Shard(self.reading, self.learn.remote(versions(), self.blank, samples)))
        self.reading = []


@contextlib.contextmanager
def shards(on: str | None, classifier: OnlineClassifier) -> Iterator[Shards | None]:
    """Within, where lessons are learned; None: here."""
    if on is None:
        yield None
        return
    check_known("place", on, PLACES)
    begun = classifier.__sklearn_is_fitted__()
    method = classifier.resolved_["method"] if begun else classifier.method
    if method != "slda" or classifier.half_life is not None:
        raise MnemonError(
            "--on ray learns shards and merges them, which only sums allow: it needs --method slda, without --half-life."
        )
    if choose_device(classifier.device).type != "cpu":
        raise MnemonError("--on ray learns shards on the cores of the cluster; add --device cpu.")
    with ray_cluster.connected() as ray:
        yield Shards(ray, classifier)


def _learn(driver: dict[str, str], blank: OnlineClassifier, samples: list[tuple[Any, list[Any]]]) -> tuple[str, Any]:
    """The body of a task: a classifier that has learned these samples, or None if it refuses one of them."""
    if sentence := ray_cluster.mismatch(driver, versions()):
        return "refused", sentence
    torch.set_num_threads(1)
    classifier = blank.fresh()
    try:
        for x, y in samples:
            asking.learn(classifier, x, y)
    except MnemonError:  # the driver finds out which, and says so
        return "learned", None
    return "learned", classifier
