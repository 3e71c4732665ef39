"""Linear discriminant analysis of the memory's features: the paper's Gaussian with the covariance they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from mnemon.errors import Diverged, MnemonError
from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.gaussian import Gaussian
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class LinearDiscriminant(Classifier):
    """log N(f; μ_c, Σ) up to what all classes share: μ_cᵀΣ⁻¹f − ½ μ_cᵀΣ⁻¹μ_c, of the features f as they are.

    μ_c is the mean of the memory rows of class c, Σ_w their covariance within classes, Σ = Σ_w + λ·tr(Σ_w)/d·I; the prior is
    uniform, so the softmax of the scores is p(c | f). Computed in float64. A class without a memory row is never predicted.
    """

    name: ClassVar[str] = "lda"
    doc: ClassVar[str] = "Gaussian classes with one covariance, both from the features of the memory as they are"
    needs: ClassVar[tuple[str, ...]] = ("memory",)
    lam: float = option(0.1, "part λ of the mean variance added to each feature's", above=0)

    def prepare(self, learner: Learner) -> Scores:
        f, y = learner.memory_features()  # [n, d], [n]
        statistics = Gaussian(f.shape[1], len(learner.seen), device=f.device, dtype=torch.float64)
        statistics.add(f, y)
        try:
            scores = statistics.discriminant(self.lam)
        except MnemonError:
            raise Diverged(
                "lda cannot be solved: features of the memory are not finite, or lam is too small for them."
            ) from None
        return lambda out: scores(out.features).to(out.features.dtype)
