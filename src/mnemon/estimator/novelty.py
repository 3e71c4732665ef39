"""How far a sample is from everything learned: its distance to the nearest class mean, in deviations within classes.

The Mahalanobis distance with one covariance for all classes (Lee et al., 2018), in the space of the features. A network's
features tell by their direction and by their length, so two spaces are taken together: the features as they are, and of
length 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mnemon.learning.gaussian import Gaussian
from mnemon.learning.losses import unit

SHRINK = 0.01  # of each feature's variance, added on the diagonal
FULL = 1024  # features; with more, covariances are left out, since the work is quadratic in them
HUGE = 1e100  # a distance that is no number


class Space(NamedTuple):
    """Features in which the classes have the identity as covariance."""

    unit_length: bool  # of the features, before all else
    centre: Tensor  # [D], float64
    whiten: Tensor  # [D, D], or [D] without covariances
    squares: Tensor  # [C]: ‖m‖² of the mean m of each class with samples, whitened
    twice: Tensor  # [D, C]: 2m

    def squared(self, f: Tensor) -> Tensor:
        """Distance² of features [n, D] to the nearest mean, by its expectation D for samples of a Gaussian class [n]."""
        f = (unit(f) if self.unit_length else f).double() - self.centre
        white = f @ self.whiten if self.whiten.ndim == 2 else f * self.whiten
        # ‖w − m‖² as a product, since torch.cdist does not export
        near = self.squares - white @ self.twice
        return (white.square().sum(1) + near.amin(1)).clamp(min=0) / len(self.twice)


def distance(spaces: Sequence[Space], f: Tensor) -> Tensor:
    """Root of the mean over the spaces [n]; about 1 for samples of Gaussian classes."""
    found = torch.stack([space.squared(f) for space in spaces]).mean(0).sqrt()
    return torch.nan_to_num(found, nan=HUGE, posinf=HUGE).clamp(max=HUGE)


def space(statistics: Gaussian, *, unit_length: bool = False) -> Space:
    """The space of features with these statistics. A feature that never varied is left out: no scale is known for it."""
    centre, total = statistics.over_all()
    within = statistics.scatter.diagonal().double().clamp(min=0) / statistics.weight.clamp(min=1)
    deviation = torch.maximum(within, SHRINK * total).sqrt()
    varies = deviation > 1e-7 * centre.abs()
    scale = torch.where(varies, 1 / torch.where(varies, deviation, 1.0), 0.0)
    whiten = scale / math.sqrt(1 + SHRINK)
    if len(centre) <= FULL:
        correlation = statistics.covariance() * scale * scale[:, None]
        correlation.diagonal().fill_(1 + SHRINK)
        root, failed = torch.linalg.cholesky_ex(correlation)
        if not bool(failed):  # else rounding spoiled the covariances, and the variances alone are left
            whiten = torch.linalg.solve_triangular(root, torch.diag(scale), upper=False).T
    means = statistics.means[statistics.counts > 0].double() - centre
    means = means @ whiten if whiten.ndim == 2 else means * whiten
    return Space(unit_length, centre, whiten, means.square().sum(1), (2 * means).T)


def spaces_of(f: Tensor, y: Tensor, capacity: int) -> list[Space]:
    """The two spaces of a network, from features f [n, D] of the classes y [n]."""
    found = []
    for unit_length in (False, True):
        statistics = Gaussian(f.shape[1], capacity, device=f.device)
        statistics.add(unit(f) if unit_length else f, y)
        found.append(space(statistics, unit_length=unit_length))
    return found
