"""Ridge regression of the classes on the features of the memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon.errors import Diverged
from mnemon.learning.classifier import Classifier, Scores
from mnemon.learning.losses import unit
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class Ridge(Classifier):
    """z·W with W = (ZᵀAZ + λI)⁻¹ ZᵀAY: the unit features Z [n, d] of the memory against their classes Y [n, C], one-hot.

    A is diagonal and weighs all classes equally: a row of class c has n / (C·n_c), with n_c rows of it and C classes in the
    memory. The weights sum to n, so that λ does not mean another thing when the classes are uneven. Solved in float64. A class
    without a memory row is never predicted. A score is near 1 for the right class and near 0 for the others, so the softmax
    of the scores is much flatter than the errors are.
    """

    name: ClassVar[str] = "ridge"
    doc: ClassVar[str] = "ridge regression on the normalised features of the memory, all classes weighing the same"
    needs: ClassVar[tuple[str, ...]] = ("memory",)
    lam: float = option(1.0, "weight λ of the penalty", above=0)

    def prepare(self, learner: Learner) -> Scores:
        w, offset, *_ = self._solve(learner)
        return lambda out: (unit(out.features).double() @ w + offset).to(out.features.dtype)

    def left_out(self, learner: Learner) -> tuple[Tensor, Tensor]:
        """Scores [n, C] of the memory's rows, each as if it were not in the memory, and their classes [n].

        p_i = z_i·W without row i is (p_i − h_i·y_i) / (1 − h_i), with h_i = a_i·z_iᵀ(ZᵀAZ + λI)⁻¹z_i.
        """
        w, offset, z, y, a, root = self._solve(learner)
        h = a * (z * torch.cholesky_solve(z.T, root).T).sum(1)
        p = z @ w
        p[torch.arange(len(y), device=y.device), y] -= h
        return p / (1 - h)[:, None] + offset, y

    def _solve(self, learner: Learner) -> tuple[Tensor, ...]:
        """W [d, C], what is added to the scores [C], Z [n, d], classes [n], weights [n], and the root of ZᵀAZ + λI."""
        f, y = learner.memory_features()  # [n, d], [n]
        z, capacity = unit(f).double(), len(learner.seen)
        rows = torch.zeros(capacity, dtype=z.dtype, device=z.device).index_add_(0, y, torch.ones_like(z[:, 0]))
        a = len(y) / ((rows > 0).sum() * rows[y])  # [n]
        weighted = a[:, None] * z  # AZ
        gram = weighted.T @ z
        gram.diagonal().add_(self.lam)
        targets = torch.zeros(capacity, z.shape[1], dtype=z.dtype, device=z.device).index_add_(0, y, weighted)  # YᵀAZ
        root, failed = torch.linalg.cholesky_ex(gram)
        if failed:  # λI alone makes it positive definite, unless a feature is not a number
            raise Diverged(
                "ridge cannot be solved: features of the memory are not finite, or lam is too small for them."
            )
        w = torch.cholesky_solve(targets.T, root)  # [d, C]
        offset = torch.where(rows > 0, 0.0, -math.inf)
        return w, offset, z, y, a, root
