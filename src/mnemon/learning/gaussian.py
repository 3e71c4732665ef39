"""The streaming Gaussian classifier: p(f | c) = N(μ_c, Σ) with one covariance for all classes.

Its state is a set of sufficient statistics, so nothing is forgotten and the order of the stream does not matter:

    n_c   samples of class c
    μ_c   their mean
    W     Σ_c Σ_{i in c} (f_i − μ_c)(f_i − μ_c)ᵀ, the scatter within classes

Two states merge by addition, and a sample is removed by subtraction. W is updated in centred form (Chan et al.), never as
a difference of two large sums, so float32 is enough to store it: `tests/learning/test_gaussian.py` states the tolerances.

The paper's classifier is the case Σ = I.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemon.errors import MnemonError

CHUNK = 4096  # samples added at once: bounds the float64 copies


class Discriminant(NamedTuple):
    """Linear scores: μ_cᵀΣ⁻¹f − ½ μ_cᵀΣ⁻¹μ_c. For equal priors their softmax is p(c | f)."""

    weight: Tensor  # [C, D]
    bias: Tensor  # [C], −inf for a class without samples

    def __call__(self, f: Tensor) -> Tensor:
        """Features [n, D] → scores [n, C]."""
        return torch.addmm(self.bias, f.to(self.weight.dtype), self.weight.T)


class Gaussian:
    """Counts, means and within-class scatter of `classes` classes over `features` features.

    `half_life`: after so many further samples of its class a sample counts half. A class that is not shown does not fade.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        half_life: float | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if half_life is not None and not half_life > 0:
            raise MnemonError(f"half_life is a number of samples above 0, not {half_life}.")
        self.half_life = half_life
        self.counts = torch.zeros(classes, dtype=torch.float64, device=device)
        self.means = torch.zeros(classes, features, dtype=dtype, device=device)
        self.scatter = torch.zeros(features, features, dtype=dtype, device=device)
        self.weight = torch.zeros((), dtype=torch.float64, device=device)  # of the samples in the scatter

    @property
    def features(self) -> int:
        return self.means.shape[1]

    def grow(self, classes: int) -> None:
        """Hold room for at least `classes` classes."""
        more = classes - len(self.counts)
        if more > 0:
            self.counts = torch.cat([self.counts, self.counts.new_zeros(more)])
            self.means = torch.cat([self.means, self.means.new_zeros(more, self.features)])

    def add(self, f: Tensor, y: Tensor) -> None:
        """Learn samples: features f [n, D] of the classes y [n]. The result does not depend on how they are cut into calls."""
        for part, classes in zip(torch.split(f, CHUNK), torch.split(y, CHUNK), strict=True):
            if self.half_life is None:
                self._merge(*_moments(part, classes, len(self.counts)))
            else:
                self._add_aging(part, classes)

    def remove(self, f: Tensor, y: Tensor) -> None:
        """Take samples back that were added: afterwards the statistics are those of the others."""
        if self.half_life is not None:
            raise MnemonError("samples cannot be taken back exactly while older ones fade (half_life).")
        counts, means, rows = _moments(f, y, len(self.counts))
        if (counts > self.counts).any():
            raise MnemonError("more samples of a class are to be removed than were learned.")
        left = self.counts - counts
        there = counts > 0
        gap = means - self.means.double()  # [C, D]
        # μ' = μ − n_b/n' · (m_b − μ); W' = W − S_b − n_b·n/n' · (m_b − μ)(m_b − μ)ᵀ
        share = torch.where(there & (left > 0), counts / left.clamp(min=1), 0.0)
        lost = (share * self.counts).sqrt()[:, None] * gap
        self.means -= (share[:, None] * gap).to(self.means.dtype)
        self.means[left == 0] = 0.0
        self._add_rows(torch.cat([rows, lost[there]]), sign=-1)
        self.counts, self.weight = left, self.weight - counts.sum()

    def merge(self, other: Gaussian, classes: Tensor | None = None) -> None:
        """Take in what another learned on other samples; classes[c]: this one's index of the other's class c (None: the
        same)."""
        if other.features != self.features:
            raise MnemonError(f"{other.features} features cannot be merged with {self.features}.")
        if self.half_life is not None or other.half_life is not None:
            raise MnemonError("statistics that fade (half_life) cannot be merged: their samples have no common order.")
        if classes is None:
            classes = torch.arange(len(other.counts), device=self.counts.device)
        self.grow(int(classes.max()) + 1 if len(classes) else 0)
        counts, means = self.counts.new_zeros(len(self.counts)), self.means.double().new_zeros(self.means.shape)
        counts[classes], means[classes] = other.counts, other.means.double()
        self._merge(counts, means, other.means.new_zeros(0, self.features).double())
        self.scatter += other.scatter

    def forget(self, c: int) -> None:
        """Remove a class's count and mean: it is never predicted again. What its samples gave to the shared covariance stays;
        `remove` takes that back too, where the samples are at hand."""
        self.counts[c] = 0.0
        self.means[c] = 0.0

    def covariance(self) -> Tensor:
        """Σ_w = W / n [D, D], float64."""
        return self.scatter.double() / self.weight.clamp(min=1)

    def discriminant(self, lam: float) -> Discriminant:
        """The classifier with Σ = Σ_w + λ·tr(Σ_w)/D·I; one Cholesky decomposition in float64."""
        sigma = self.covariance()
        trace = sigma.diagonal().mean()
        # Before any class has two different samples Σ_w is 0: then the identity takes its place, which is NCM.
        ridge = torch.where(trace > 0, lam * trace, 1.0)
        sigma.diagonal().add_(ridge)
        means = self.means.double()
        weight = torch.cholesky_solve(means.T, torch.linalg.cholesky(sigma)).T  # [C, D]
        bias = torch.where(self.counts > 0, -0.5 * (weight * means).sum(1), -torch.inf)
        return Discriminant(weight, bias)

    def state(self) -> dict[str, Tensor]:
        """All tensors that change."""
        return {"counts": self.counts, "means": self.means, "scatter": self.scatter, "weight": self.weight}

    # --- updates

    def _merge(self, counts: Tensor, means: Tensor, rows: Tensor) -> None:
        """Join class moments with those so far; `rows` [m, D]: what they add to the scatter, as rowsᵀrows."""
        total = self.counts + counts
        share = torch.where(counts > 0, counts / total.clamp(min=1), 0.0)
        gap = means - self.means.double()
        # n·n_b/(n + n_b) · (m_b − μ)(m_b − μ)ᵀ, as a row of its own for each class
        between = (self.counts * share).sqrt()[:, None] * gap
        self.means += (share[:, None] * gap).to(self.means.dtype)
        self.counts, self.weight = total, self.weight + counts.sum()
        self._add_rows(torch.cat([rows, between[share > 0]]))

    def _add_rows(self, rows: Tensor, sign: int = 1) -> None:
        """W ← W ± rowsᵀrows."""
        rows = rows.to(self.scatter.dtype)
        self.scatter.addmm_(rows.T, rows, alpha=sign)

    def _add_aging(self, f: Tensor, y: Tensor) -> None:
        """Sample by sample: a sample of class c first ages the class.

        The covariance is shared, so a class's part of W is taken to be its part of the weight: when a class loses weight, W
        shrinks by the same amount, and Σ_w = W / n stays as it is.
        """
        assert self.half_life is not None
        keep = 0.5 ** (1 / self.half_life)
        for row, c in zip(f.double(), y.tolist(), strict=True):
            n = self.counts[c].clone()
            lost = (1 - keep) * n
            kept = 1 - lost / self.weight.clamp(min=1e-300)
            gap = row - self.means[c].double()
            total = n - lost + 1
            outer = (
                (n - lost) / total
            ).sqrt() * gap  # of a class's first sample: 0, so a new class moves no covariance
            self.scatter.mul_(kept.to(self.scatter.dtype)).addr_(*[outer.to(self.scatter.dtype)] * 2)
            self.means[c] += (gap / total).to(self.means.dtype)
            self.counts[c] = total
            self.weight = self.weight - lost + 1


def _moments(f: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Counts [C] and means [C, D] of samples by class, and the samples minus the mean of their class [n, D]; float64."""
    f = f.double()
    counts = torch.bincount(y, minlength=classes).double()
    sums = f.new_zeros(classes, f.shape[1]).index_add_(0, y, f)
    means = sums / counts.clamp(min=1)[:, None]
    return counts, means, f - means[y]
