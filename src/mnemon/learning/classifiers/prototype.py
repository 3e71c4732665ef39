"""The nearest of the prototypes that CoPE keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.objectives import prototype_logits

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Prototype(Classifier):
    """p_c · f, over the classes seen."""

    name: ClassVar[str] = "prototype"
    doc: ClassVar[str] = "nearest of CoPE's prototypes"
    needs: ClassVar[tuple[str, ...]] = ("prototypes",)

    def prepare(self, learner: Learner) -> Scores:
        return lambda out: prototype_logits(out, learner.seen)
