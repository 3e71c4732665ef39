"""From scores to probabilities that are as high as the model is right: temperature scaling on the exam.

Guo et al. (2017): p = softmax(logits / T), with the T that makes the labels of held-out samples likeliest. One number cannot
change which class is the likeliest, so predictions stay as they are. All classes weigh the same, whatever the stream was:
the probabilities are those for classes that are equally frequent. Before the exam has samples, statistics are
cautious, and ridge regression asks the rows of its memory, each left out of it.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from mnemon.errors import MnemonError

LEAST = 10  # samples in the exam; with fewer there is no temperature
OUTLIERS = 0.01  # of the samples are explained by no temperature: one with an absurd score must not flatten all others
PSEUDO_ERRORS = 0.1  # so many samples more were wrong: else T would be 0 wherever the whole exam is right
DEVIATION = 3.0  # of log T around 0 before the exam is seen
RANGE = 7.0  # of log T, at first: from 1/1,100 to 1,100 …
WIDEST = 14.0  # … and as far as this where the best is at an end: classes may be that near to each other
STEPS = 28  # of log T over its range, then halved around the best one
HALVINGS = 8


def probability(reject: Any) -> float | None:
    """The least probability that `predict` is to be sure of, checked; None: any."""
    if reject is None:
        return None
    if isinstance(reject, bool) or not isinstance(reject, Real) or not 0 <= float(reject) <= 1:
        raise MnemonError(f"reject is the least probability of a label, a number from 0 to 1, not {reject!r}.")
    return float(reject)


def caution(logits: Tensor, samples: float) -> float:
    """T before there is an exam, for logits [c, c] of the means of the c classes there are; `samples` were learned.

    Of few samples in many dimensions a covariance tells next to nothing, and scores are large however wrong. Laplace's rule:
    after n samples without an error the next one is wrong with probability 1 / (n + 2). So much is left to the other classes
    at the mean of a class, the one in the middle of them; scores that claim less than that are left as they are.
    """
    classes = len(logits)
    if classes < 2:
        return 1.0
    others = logits.double().clone()
    others.fill_diagonal_(-torch.inf)
    margin = float((logits.diagonal() - others.amax(1)).median())
    return max(1.0, margin / math.log((samples + 1) * (classes - 1))) if math.isfinite(margin) else 1.0


def temperature(logits: Tensor, y: Tensor) -> float | None:
    """T for logits [n, C] (−inf for a class that cannot be predicted) of samples of the classes y [n]; None if they are too
    few to tell."""
    logits = logits.double()
    classes = torch.isfinite(logits).any(0)
    usable = classes[y] & torch.isfinite(logits[:, classes]).all(1)
    if int(usable.sum()) < LEAST or int(classes.sum()) < 2:
        return None
    y, logits = (classes.cumsum(0) - 1)[y[usable]], logits[usable][:, classes]
    weight = 1 / torch.bincount(y)[y].double()  # all classes weigh the same
    weight *= weight.sum() / weight.square().sum()  # summing to the number of equal weights that are as reliable
    second = logits.topk(2).indices[:, 1]
    share = weight / weight.sum()

    def cost(log_t: float) -> float:
        """Minus the logarithm of the posterior of T; a wrong sample more is one of the second likeliest class."""
        log_p = torch.log_softmax(logits / math.exp(log_t), 1)
        right, wrong = (log_p.gather(1, c[:, None]).flatten() for c in (y, second))
        right = torch.log((1 - OUTLIERS) * right.exp() + OUTLIERS / logits.shape[1])
        return float(-(weight @ right) - PSEUDO_ERRORS * (share @ wrong)) + (log_t / DEVIATION) ** 2 / 2

    step = 2 * RANGE / STEPS
    costs = {i * step - RANGE: cost(i * step - RANGE) for i in range(STEPS + 1)}
    best = min(costs, key=costs.__getitem__)
    while best in (min(costs), max(costs)) and abs(best) < WIDEST:
        further = best + math.copysign(step, best)
        costs[further] = cost(further)
        best = min(costs, key=costs.__getitem__)
    for _ in range(HALVINGS):
        step /= 2
        near = {t: cost(t) for t in (best - step, best + step)} | {best: costs[best]}
        best = min(near, key=near.__getitem__)
        costs[best] = near[best]
    return math.exp(best)
