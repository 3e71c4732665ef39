"""The class means of the memory and the softmax head together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.classifiers.ncm import NearestMean
from mnemon.learning.network import Output
from mnemon.learning.objectives import CrossEntropy
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Blend(Classifier):
    """log softmax_c(s·(2 z·μ_c − ‖μ_c‖²)) + log softmax_c(o_c): the scores of `ncm`, s times as sharp, and the head's logits o.

    The product of the two posteriors. A class without a memory row is never predicted.
    """

    name: ClassVar[str] = "blend"
    doc: ClassVar[str] = "the posteriors of the nearest class mean and of the softmax head, multiplied"
    needs: ClassVar[tuple[str, ...]] = ("memory", "head")
    sharpness: float = option(8.0, "factor s on the scores of the class means", above=0)

    def prepare(self, learner: Learner) -> Scores:
        means, logits = NearestMean().prepare(learner), CrossEntropy().logits

        def scores(out: Output) -> Tensor:
            return (self.sharpness * means(out)).log_softmax(1) + logits(out, learner.seen).log_softmax(1)

        return scores
