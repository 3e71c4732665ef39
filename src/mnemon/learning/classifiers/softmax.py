"""The linear head that cross-entropy trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.objectives import CrossEntropy

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Softmax(Classifier):
    """The logits of the linear head, over the classes seen."""

    name: ClassVar[str] = "softmax"
    doc: ClassVar[str] = "the linear head that cross-entropy trains"
    needs: ClassVar[tuple[str, ...]] = ("head",)

    def prepare(self, learner: Learner) -> Scores:
        logits = CrossEntropy().logits
        return lambda out: logits(out, learner.seen)
