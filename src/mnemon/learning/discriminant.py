"""Linear scores of Gaussian classes that share a covariance."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemon.errors import MnemonError

NOISE = 10  # samples for each class, chosen on held-out training samples (benchmarks/shrinkage.py)
LEAST = 1e-3  # λ; rounding in float32 took 0.0001 of the mean variance in 100,000 single samples, 0.0012 in 250,000 …
MOST_LOST = 1e-2  # … and what took more than this is none


class Discriminant(NamedTuple):
    """Linear scores: μ_cᵀΣ⁻¹f − ½ μ_cᵀΣ⁻¹μ_c. For equal priors their softmax is p(c | f)."""

    weight: Tensor  # [C, D]
    bias: Tensor  # [C], −inf for a class without samples

    def __call__(self, f: Tensor) -> Tensor:
        """Features [n, D] → scores [n, C]."""
        return torch.addmm(self.bias, f.to(self.weight.dtype), self.weight.T)


def shrinkage(classes: int, samples: float) -> float:
    """λ = "auto": 10·C/N. Up to the factor 1 + λ, the covariance is then what it would be if each class had brought ten samples
    more, of noise that is alike in all directions (docs/methods/slda.md)."""
    return max(NOISE * classes / max(samples, 1), LEAST)


def solved(sigma: Tensor, means: Tensor, lam: float, *, removed: bool) -> Tensor:
    """Σ⁻¹μ_c as rows [C, D]. Σ is lifted by what rounding may have taken from it: where samples were removed, or where very
    many were added and λ is no smaller than what float32 usually holds."""
    factor, failed = torch.linalg.cholesky_ex(sigma)
    if bool(failed) and (removed or lam >= LEAST) and bool(torch.isfinite(sigma).all()):
        taken = torch.linalg.eigvalsh(sigma)[0].abs()
        mean = sigma.diagonal().mean()
        if removed or bool(taken <= MOST_LOST * mean):
            sigma.diagonal().add_(2 * taken if removed else taken + lam * mean)
            factor, failed = torch.linalg.cholesky_ex(sigma)
    if bool(failed):
        raise MnemonError(f"the covariance has no inverse with lam {lam}; take a larger one.")
    return torch.cholesky_solve(means.T, factor).T


def nearest_mean(counts: Tensor, means: Tensor) -> Discriminant:
    """The classifier with the identity as covariance."""
    means = means.double()
    return Discriminant(means, torch.where(counts > 0, -0.5 * means.square().sum(1), -torch.inf))
