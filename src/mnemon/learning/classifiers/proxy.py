"""The nearest of the proxies that a loss trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.objectives import CrossEntropy

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Proxy(Classifier):
    """The logits of the loss over the classes seen: −‖z − p_c‖² by its `scale`, or cosines by its temperature."""

    name: ClassVar[str] = "proxy"
    doc: ClassVar[str] = "nearest proxy"
    needs: ClassVar[tuple[str, ...]] = ("proxies",)

    def prepare(self, learner: Learner) -> Scores:
        assert isinstance(learner.objective, CrossEntropy)
        logits = learner.objective.logits
        return lambda out: logits(out, learner.seen)
