"""Linear scores of Gaussian classes that share a covariance."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mnemon.errors import MnemonError


class Discriminant(NamedTuple):
    """Linear scores: μ_cᵀΣ⁻¹f − ½ μ_cᵀΣ⁻¹μ_c. For equal priors their softmax is p(c | f)."""

    weight: Tensor  # [C, D]
    bias: Tensor  # [C], −inf for a class without samples

    def __call__(self, f: Tensor) -> Tensor:
        """Features [n, D] → scores [n, C]."""
        return torch.addmm(self.bias, f.to(self.weight.dtype), self.weight.T)


def solved(sigma: Tensor, means: Tensor, lam: float, removed: bool) -> Tensor:
    """Σ⁻¹μ_c as rows [C, D]. Where samples were removed, Σ is lifted by what rounding may have taken from it."""
    factor, failed = torch.linalg.cholesky_ex(sigma)
    if bool(failed) and removed:
        sigma.diagonal().sub_(2 * torch.linalg.eigvalsh(sigma)[0])
        factor, failed = torch.linalg.cholesky_ex(sigma)
    if bool(failed):  # λ is below what float32 holds of Σ_w
        raise MnemonError(f"the covariance has no inverse with lam {lam}; take a larger one.")
    return torch.cholesky_solve(means.T, factor).T


def nearest_mean(counts: Tensor, means: Tensor) -> Discriminant:
    """The classifier with the identity as covariance."""
    means = means.double()
    return Discriminant(means, torch.where(counts > 0, -0.5 * means.square().sum(1), -torch.inf))
