"""Metrics of the accuracy matrix a[k, j]: percent correct on task j's test set after task k.

Where each task was evaluated after each, what stands above the diagonal, of tasks that were not learned yet, takes no part:
nan, 0 or the accuracy on a task to come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemon.errors import MnemonError


def average_accuracy(a: ArrayLike) -> float:
    """A_T = 1/T Σ_j a[T, j]: the mean over tasks after the last one."""
    return float(np.mean(_matrix(a)[-1]))


def average_forgetting(a: ArrayLike) -> float:
    """F_T = 1/(T−1) Σ_{j<T} ( max_{l ≤ T−1} a[l, j] − a[T, j] ); nan for fewer than two evaluated tasks.

    As the paper defines it: the last row takes no part in the maximum (so forgetting can be negative), and the last
    task no part in the mean.
    """
    matrix = _learned(a)
    return float(np.mean(forgotten(matrix))) if len(matrix) > 1 and matrix.shape[1] > 1 else math.nan


def forgotten(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """max_{l ≤ T−1} a[l, j] − a[T, j] of each task j < T, for matrices a [..., T, T]."""
    best: NDArray[np.float64] = np.nan_to_num(a[..., :-1, :-1], nan=0.0).max(-2)  # tasks not learned yet count as 0
    return best - a[..., -1, :-1]


def anytime_accuracy(a: ArrayLike) -> float:
    """1/T Σ_k 1/k Σ_{j ≤ k} a[k, j]: the mean of the accuracy curve, over the tasks learned at each point."""
    matrix = _learned(a)
    if np.isnan(matrix).all(1).any():
        raise MnemonError("each row of an accuracy matrix holds the accuracy on at least one task that was learned.")
    return float(np.mean(np.nanmean(matrix, axis=1)))


def learning_accuracy(a: ArrayLike) -> float:
    """1/T Σ_j a[j, j]: how well each task is known right after it was learned; nan unless every task was evaluated."""
    matrix = _matrix(a)
    return float(np.mean(np.diagonal(matrix))) if matrix.shape[0] == matrix.shape[1] else math.nan


def backward_transfer(a: ArrayLike) -> float:
    """BWT = 1/(T−1) Σ_{j<T} ( a[T, j] − a[j, j] ): how learning the later tasks changed the earlier ones (Lopez-Paz and Ranzato
    2017); nan unless every one of at least two tasks was evaluated."""
    matrix = _matrix(a)
    return float(np.mean((matrix[-1] - np.diagonal(matrix))[:-1])) if _square(matrix) else math.nan


def min_accuracy(a: ArrayLike) -> float:
    """min-ACC = 1/(T−1) Σ_{j<T} min_{k>j} a[k, j]: the worst that each task came to after it was learned (De Lange et al.
    2023), here at the ends of tasks; nan unless every one of at least two tasks was evaluated."""
    matrix = _matrix(a)
    if not _square(matrix):
        return math.nan
    return float(np.mean([np.min(matrix[j + 1 :, j]) for j in range(len(matrix) - 1)]))


def area_under_curve(a: ArrayLike, samples: Sequence[int]) -> float:
    """A_AUC = Σ_i a[i]·(n_i − n_{i−1}) / n: the area under the curve of accuracy over samples, of evaluations after n_i samples
    (Koh et al. 2022: the mean, where they are equally far apart)."""
    matrix, steps = _matrix(a), np.diff([0, *samples])
    if len(steps) != len(matrix) or not (steps > 0).all():
        raise MnemonError(f"samples are rising numbers, one for each of the {len(matrix)} evaluations, not {samples}.")
    return float(np.mean(matrix, axis=1) @ steps / steps.sum())


def confidence_interval(values: Sequence[float]) -> tuple[float, float]:
    """(mean, half-width) of the 95 % interval of the mean: t_{0.975, n−1} · s / √n, s with n − 1."""
    from scipy.special import stdtrit  # the t-quantile; not loaded before it is needed

    x = np.asarray(values, float)
    if x.ndim != 1:
        raise MnemonError(
            f"a confidence interval is of a list of numbers, one for each run, not of the shape {x.shape}."
        )
    if len(x) < 2:
        raise MnemonError(f"a confidence interval needs at least two runs, not {x.size}.")
    if not np.isfinite(x).all():
        raise MnemonError("a confidence interval needs finite values.")
    return float(x.mean()), float(stdtrit(len(x) - 1, 0.975) * x.std(ddof=1) / math.sqrt(len(x)))


def _square(matrix: NDArray[np.float64]) -> bool:
    return bool(matrix.shape[0] == matrix.shape[1] > 1)


def _learned(a: ArrayLike) -> NDArray[np.float64]:
    """The matrix with nan for the tasks that were not learned yet."""
    matrix = _matrix(a)
    if _square(matrix):
        matrix[np.triu_indices(len(matrix), 1)] = math.nan
    return matrix


def _matrix(a: ArrayLike) -> NDArray[np.float64]:
    try:
        matrix = np.array(a, float)  # None (a record's null) becomes nan
    except (TypeError, ValueError):
        raise MnemonError("an accuracy matrix has rows of numbers, all of one length.") from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise MnemonError(f"an accuracy matrix has two dimensions [k, j], not the shape {matrix.shape}.")
    if not np.isfinite(matrix[-1]).all():
        raise MnemonError("the last row of an accuracy matrix holds the accuracy on every task.")
    return matrix
