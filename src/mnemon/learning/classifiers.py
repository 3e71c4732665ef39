"""Classifiers by name: from features to a score for each class. The highest score is the prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemon.learning.losses import only_seen, proxy_logits, unit
from mnemon.learning.network import Output
from mnemon.learning.objectives import prototype_logits

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner

Scores = Callable[[Output], Tensor]  # one pass's output -> [n, capacity], −inf for classes that cannot be predicted


@dataclass(frozen=True)
class Classifier:
    """`needs` names what must be there: "memory", or class rows ("head", "proxies", "prototypes").

    `prepare` does once per evaluation what it can.
    """

    name: str
    needs: str
    doc: str
    prepare: Callable[[Learner], Scores]


def softmax(learner: Learner) -> Scores:
    """The logits of the linear head, over the classes seen."""
    return lambda out: only_seen(_there(out.logits), learner.seen)


def proxy(learner: Learner) -> Scores:
    """−‖z − p_c‖², over the classes seen."""
    return lambda out: proxy_logits(unit(out.features), _there(out.proxies), learner.seen)


def ncm(learner: Learner) -> Scores:
    """Nearest class mean (Eq. 2) of the normalised features z."""
    return nearest_mean(learner, unit)


def ncm_raw(learner: Learner) -> Scores:
    """Nearest class mean of the features f as they are."""
    return nearest_mean(learner, lambda f: f)


def ncm_unit(learner: Learner) -> Scores:
    """Nearest class mean of the normalised features z, the means brought back to unit length (SCR's rule)."""
    return nearest_mean(learner, unit, unit)


def prototype(learner: Learner) -> Scores:
    """p_c · f, over the classes seen."""
    return lambda out: prototype_logits(out, learner.seen)


def nearest_mean(
    learner: Learner, space: Callable[[Tensor], Tensor], mean_space: Callable[[Tensor], Tensor] = lambda mu: mu
) -> Scores:
    """−‖z − μ_c‖² up to ‖z‖²: 2 z·μ_c − ‖μ_c‖², with μ_c the mean over the memory rows of class c, not re-normalised
    unless `mean_space` does it.

    Half of it is, up to a constant, the log-density of the paper's Gaussian p(z | c) = N(μ_c, I); the prior is uniform.
    A class without a memory row is never predicted. A matrix product, since torch.cdist does not export.
    """
    f, y = learner.memory_features()  # [filled, d], [filled]
    z = space(f)
    rows = torch.zeros(len(learner.seen), dtype=z.dtype, device=z.device).index_add_(0, y, torch.ones_like(z[:, 0]))
    sums = torch.zeros(len(learner.seen), z.shape[1], dtype=z.dtype, device=z.device).index_add_(0, y, z)
    mu = mean_space(sums / rows.clamp(min=1)[:, None])
    offset = torch.where(rows > 0, -mu.square().sum(1), -math.inf)
    return lambda out: 2 * space(out.features) @ mu.T + offset


def _there(rows: Tensor | None) -> Tensor:
    assert rows is not None, "learning.build() refuses a classifier whose class rows the loss does not train"
    return rows


CLASSIFIERS = {
    c.name: c
    for c in (
        Classifier("softmax", "head", "the linear head that cross-entropy trains", softmax),
        Classifier("ncm", "memory", "nearest class mean of normalised features, means from the memory", ncm),
        Classifier("ncm-raw", "memory", "nearest class mean of the features as they are", ncm_raw),
        Classifier("ncm-unit", "memory", "as ncm, the class means brought back to unit length", ncm_unit),
        Classifier("proxy", "proxies", "nearest proxy", proxy),
        Classifier("prototype", "prototypes", "nearest of CoPE's prototypes", prototype),
    )
}
