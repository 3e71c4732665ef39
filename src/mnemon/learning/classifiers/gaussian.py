"""The Gaussian classifier with one covariance for all classes, from the statistics a method keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mnemon.errors import Diverged, MnemonError
from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.gaussian import SHRINK
from mnemon.learning.options import option
from mnemon.learning.streaming import StreamingLearner

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class StreamingGaussian(Classifier):
    """μ_cᵀΣ⁻¹f − ½ μ_cᵀΣ⁻¹μ_c: up to a constant the log-density of p(f | c) = N(μ_c, Σ), so for equal priors the softmax of
    the scores is p(c | f). Σ = Σ_w + λ·tr(Σ_w)/D·I with the covariance Σ_w within classes, or Σ_w + λ·diag(Σ_w), for which the
    units of the features do not matter, or the identity, which is the paper's nearest class mean on the same features. A
    class without samples is never predicted."""

    name: ClassVar[str] = "gaussian"
    doc: ClassVar[str] = "linear discriminant analysis, from the statistics that slda keeps"
    needs: ClassVar[tuple[str, ...]] = ("statistics",)

    lam: float | str = option(
        1e-3,
        "weight λ of the identity or the diagonal in the covariance; auto: 10 · classes / samples, at least 0.001",
        above=0,
        words=("auto",),
    )
    covariance: str = option(
        "shared", "one for all classes, learned (shared), or none (identity)", choices=("shared", "identity")
    )
    shrink: str = option(
        "identity",
        "what λ weighs: the mean variance for every feature (identity), or each feature's own",
        choices=SHRINK,
    )

    def prepare(self, learner: Learner) -> Scores:
        assert isinstance(learner, StreamingLearner), "checked when the classifier is chosen"
        try:
            scores = learner.discriminant(self.lam if self.covariance == "shared" else None, self.shrink)
        except MnemonError as error:
            raise Diverged(f"{self.name}: {error}") from None
        return lambda out: scores(out.features)
