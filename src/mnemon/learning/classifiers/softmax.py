"""The linear head that cross-entropy trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.losses import only_seen
from mnemon.learning.network import Output

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Softmax(Classifier):
    """The logits of the linear head, over the classes seen."""

    name: ClassVar[str] = "softmax"
    doc: ClassVar[str] = "the linear head that cross-entropy trains"
    needs: ClassVar[str] = "head"

    def prepare(self, learner: Learner) -> Scores:
        def scores(out: Output) -> Tensor:
            assert out.logits is not None
            return only_seen(out.logits, learner.seen)

        return scores
