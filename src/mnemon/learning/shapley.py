"""Shapley values of samples for a K-nearest-neighbour classifier on the features, as ASER uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemon.learning.memory import EMPTY
from mnemon.learning.method import Batch

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


class Points(NamedTuple):
    """Places for samples in feature space; so that shapes stay fixed, some may hold no sample (class −1)."""

    f: Tensor  # [n, d]
    y: Tensor  # [n]

    @property
    def real(self) -> Tensor:
        return self.y != EMPTY


def points(learner: Learner, tables: list[Tensor], new: Batch) -> list[Points]:
    """Memory rows, table by table, and the new samples, in one pass with running statistics."""
    rows = torch.cat(tables)
    stored = learner.replay(rows)
    y = torch.cat([torch.where(rows < learner.memory.size, stored.y, EMPTY), new.y])
    with learner.evaluating():
        f = learner.net(torch.cat([stored.x, new.x])).features
    sizes = [*map(len, tables), len(new)]
    return [Points(*part) for part in zip(torch.split(f, sizes), torch.split(y, sizes), strict=True)]


def together(a: Points, b: Points) -> Points:
    return Points(torch.cat([a.f, b.f]), torch.cat([a.y, b.y]))


def shapley(evaluation: Points, candidates: Points, k: int) -> Tensor:
    """s[e, j] of candidate j for evaluation point e; 0 where either holds no sample."""
    distance = torch.cdist(evaluation.f, candidates.f, compute_mode="donot_use_mm_for_euclid_dist")
    match = (evaluation.y[:, None] == candidates.y) & candidates.real
    return knn_shapley(distance.masked_fill(~candidates.real, torch.inf), match, k)


def knn_shapley(distance: Tensor, match: Tensor, k: int) -> Tensor:
    """The Shapley value of each candidate for a K-nearest-neighbour classifier; distance, match and the result are [e, n].

        s_(n) = m_n min(K, n)/(n K),     s_(i) = s_(i+1) + (m_i − m_{i+1})/K · min(K, i)/i       (i-th nearest, m_i: match)

    A row sums to the share of the K nearest with the right label. Candidates at distance ∞ without a match count as absent.
    """
    order = distance.argsort(dim=1, stable=True)
    m = match.gather(1, order).to(distance)
    i = torch.arange(1, m.shape[1] + 1, device=m.device).to(m)
    change = (m - F.pad(m[:, 1:], (0, 1))) * (i.clamp(max=k) / (i * k))
    # Summed as whole numbers, in which a GPU's order of summing does not show; |s| < 1 and Σ|change| < 2¹³.
    s = (change * 2**50).long().flip(1).cumsum(1).flip(1).to(m) / 2**50
    return torch.zeros_like(s).scatter(1, order, s)
