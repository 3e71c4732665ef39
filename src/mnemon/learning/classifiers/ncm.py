"""The nearest class mean, with the means of the memory's features; three spaces to measure in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.losses import unit

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class NearestMean(Classifier):
    """−‖z − μ_c‖² up to ‖z‖² (Eq. 2): 2 z·μ_c − ‖μ_c‖², with μ_c the mean of z over the memory rows of class c.

    Half of it is, up to a constant, the log-density of the paper's Gaussian p(z | c) = N(μ_c, I); the prior is uniform.
    A class without a memory row is never predicted.
    """

    name: ClassVar[str] = "ncm"
    doc: ClassVar[str] = "nearest class mean of normalised features, means from the memory"
    needs: ClassVar[tuple[str, ...]] = ("memory",)
    twice_log_density: ClassVar[bool] = True

    def space(self, f: Tensor) -> Tensor:
        """Features f → z, the space of the distances."""
        return unit(f)

    def mean(self, mu: Tensor) -> Tensor:
        """The mean of a class → μ_c; not normalised again."""
        return mu

    def prepare(self, learner: Learner) -> Scores:
        f, y = learner.memory_features()  # [filled, d], [filled]
        z = self.space(f)
        rows = torch.zeros(len(learner.seen), dtype=z.dtype, device=z.device).index_add_(0, y, torch.ones_like(z[:, 0]))
        sums = torch.zeros(len(learner.seen), z.shape[1], dtype=z.dtype, device=z.device).index_add_(0, y, z)
        mu = self.mean(sums / rows.clamp(min=1)[:, None])
        offset = torch.where(rows > 0, -mu.square().sum(1), -math.inf)
        return lambda out: 2 * self.space(out.features) @ mu.T + offset  # a product, since torch.cdist does not export


@dataclass(frozen=True)
class NearestRawMean(NearestMean):
    """In the space of the features f as they are."""

    name: ClassVar[str] = "ncm-raw"
    doc: ClassVar[str] = "nearest class mean of the features as they are"

    def space(self, f: Tensor) -> Tensor:
        return f


@dataclass(frozen=True)
class NearestUnitMean(NearestMean):
    """With the means brought back to unit length (SCR's rule)."""

    name: ClassVar[str] = "ncm-unit"
    doc: ClassVar[str] = "as ncm, the class means brought back to unit length"

    def mean(self, mu: Tensor) -> Tensor:
        return unit(mu)
