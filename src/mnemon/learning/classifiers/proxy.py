"""The nearest of the proxies that Proxy-NCA trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.objectives import ProxyNCA

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Proxy(Classifier):
    """−‖z − p_c‖² by the loss's `scale`, over the classes seen."""

    name: ClassVar[str] = "proxy"
    doc: ClassVar[str] = "nearest proxy"
    needs: ClassVar[tuple[str, ...]] = ("proxies",)

    def prepare(self, learner: Learner) -> Scores:
        assert isinstance(learner.objective, ProxyNCA)
        logits = learner.objective.logits
        return lambda out: logits(out, learner.seen)
