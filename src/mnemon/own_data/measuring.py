"""When `fit` asks a model about samples before it learns them: as often as a fixed share of the work allows.

Asking costs time of its own, since the classifier is computed anew each time: class means are the features of the whole
memory, statistics are decomposed. The cost is estimated from counts, never from a clock: a fit that was killed and goes on must
ask the same questions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import nn

from mnemon.estimator.model import Model
from mnemon.learning.backbones import MLP, PatchFeatures
from mnemon.own_data.journal import Chunk

SHARE = 0.06  # of the work of learning, which asking may cost: below the tenth that is promised, as estimates are rough
ASKED = 250  # samples of a chunk at most
SOLVED = 60.0  # samples learned by an MLP that a linear system over its 400 features costs
LONGEST = 1000  # samples of a chunk, as far as they are credited: those learned elsewhere in between are not


class Costs(NamedTuple):
    """What asking costs, in samples learned; as benchmarks/measuring.py measured it."""

    question: float  # to make the classifier, whatever it is asked
    answer: float  # for each sample asked about
    chunk: float  # a chunk is learned at the cost of so many samples more than it has
    allowance: float  # spent before anything is earned: a young model is asked more often
    memory: int = 0  # samples kept, of as many as there are …
    kept: float = 0.0  # … each adds this to a question
    free_until: int = 0  # samples: before, no question costs anything to speak of
    # Samples to ask about; where there is such a bound, and until the memory is full, a question is asked only when twice as
    # many samples were learned as at the one before.
    fewest: int = 0


def costs(model: Model) -> Costs:
    method, _, classifiers = model.choice
    features = model.learner.net.dim
    if isinstance(model.learner.net.backbone, PatchFeatures):  # features are most of the work, asked or learned
        waits = model.learner.net.backbone.waits_for
        return Costs(0.1 * features, 1.0, 0.0, 0.1 * features + 45, free_until=waits, fewest=50)  # one in advance
    if not method.trains:  # sums of features as they come: all that costs is the call, or the decomposition
        question = 600 + 0.5 * features
        # Of few features a question takes a millisecond: there the first ten are free.
        return Costs(question, 0.25, 600.0, max(2 * question, 6000.0 - 8 * features))
    reads_memory = method.replays and any("memory" in classifier.needs for classifier in classifiers)
    memory = method.memory_size if reads_memory else 0
    if isinstance(model.learner.net.backbone, MLP | nn.Flatten):  # what costs is the number of calls: a step is many
        solved = SOLVED if {type(each).name for each in classifiers} & {"ridge", "lda"} else 0.0
        return Costs(5.0 + solved, 1 / 30, 0.0, 37.0 + solved, memory, 1 / 30)
    # A step passes new and replayed samples forward, and backward at one and a half times the cost (a ResNet-18).
    replayed = method.replay_size if method.replays else 0
    passes = 2.5 * (method.batch_size + replayed) / method.batch_size
    # While the memory fills, one question about all of it costs a fifth of all learning so far: two are asked in advance.
    return Costs(0.0, 1 / passes, 0.0, 150.0, memory, 1 / passes, fewest=50)


class Budget:
    """Learning earns, asking spends."""

    def __init__(self, costs: Costs, chunks: Iterable[Chunk] = ()) -> None:
        self._costs, self._left = costs, costs.allowance
        self._samples = self._asked_at = 0
        for chunk in chunks:
            self.note(chunk)

    def allows(self, asked: int) -> bool:
        """Whether so many samples of the next chunk may be asked about."""
        again = self._samples >= min(2 * self._asked_at, self._costs.memory) or not self._costs.fewest
        return again and asked >= self._costs.fewest and self.cost(asked) <= self._left

    def note(self, chunk: Chunk) -> None:
        """A chunk was learned, after the model was asked about as many of it as it says."""
        if chunk.predicted:  # a journal may say more than we would have asked
            self._left = max(0.0, self._left - self.cost(chunk.predicted))
            self._asked_at = self._samples
        learned = min(max(chunk.samples - self._samples, 0), LONGEST)
        self._left += SHARE * (learned + self._costs.chunk)
        self._samples = chunk.samples

    def cost(self, asked: int) -> float:
        """Of asking now about so many samples."""
        if self._samples < self._costs.free_until:
            return 0.0
        return (
            self._costs.question
            + self._costs.answer * asked
            + self._costs.kept * min(self._samples, self._costs.memory)
        )


def spread(n: int) -> list[int]:
    """The places of a chunk of n that are asked about: all, or ASKED at equal distances."""
    return list(range(n)) if n <= ASKED else [i * n // ASKED for i in range(ASKED)]
