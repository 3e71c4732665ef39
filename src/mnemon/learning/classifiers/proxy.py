"""The nearest of the proxies that Proxy-NCA trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.losses import proxy_logits, unit
from mnemon.learning.network import Output

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Proxy(Classifier):
    """−‖z − p_c‖², over the classes seen."""

    name: ClassVar[str] = "proxy"
    doc: ClassVar[str] = "nearest proxy"
    needs: ClassVar[str] = "proxies"

    def prepare(self, learner: Learner) -> Scores:
        def scores(out: Output) -> Tensor:
            assert out.proxies is not None
            return proxy_logits(unit(out.features), out.proxies, learner.seen)

        return scores
