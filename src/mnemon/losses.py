"""`mnemon.losses`: the paper's losses, for use in any training loop.

Input of a wrong shape, length or label is refused here. The functions of `learning/losses.py`, which a step calls, look at no
value: that would wait for the device. Nor do these inside of `torch.compile`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.learning import losses

__all__ = ["multi_similarity", "proxy_nca"]

TOLERANCE = 1e-2  # of a length of 1: bfloat16 has 8 bits


def multi_similarity(
    z: Tensor,  # [n, d] unit rows
    y: Tensor,  # [n]
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    lam: float = 0.5,
    eps: float = 0.1,
    divisor: str = "active",
) -> Tensor:
    _check_batch(z, y)
    return losses.multi_similarity(z, y, alpha=alpha, beta=beta, lam=lam, eps=eps, divisor=divisor)


def proxy_nca(z: Tensor, y: Tensor, proxies: Tensor, *, seen: Tensor | None = None) -> Tensor:
    _check_batch(z, y)
    _check_classes(z, y, proxies, seen)
    return losses.proxy_nca(z, y, proxies, seen=seen)


multi_similarity.__doc__ = losses.multi_similarity.__doc__
proxy_nca.__doc__ = losses.proxy_nca.__doc__


def _check_batch(z: Tensor, y: Tensor) -> None:
    _check_tensors(z=z, y=y)
    if z.ndim != 2 or len(z) == 0:
        raise MnemonError(f"z must hold the features [n, d] of at least one sample, not a tensor {tuple(z.shape)}.")
    if y.shape != z.shape[:1] or y.is_floating_point():
        raise MnemonError(
            f"y must hold one whole number for each of the {len(z)} samples, not a tensor {tuple(y.shape)} of {y.dtype}."
        )
    if torch.compiler.is_compiling():
        return
    length = torch.linalg.vector_norm(z.detach().float(), dim=1)
    wrong = (length > TOLERANCE) & ((length - 1).abs() > TOLERANCE)  # a zero row stays one; nan shows in the loss
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise MnemonError(
            f"the rows of z must have unit length, and row {row} has {float(length[row]):.4g}; use F.normalize(z, dim=1)."
        )


def _check_tensors(**given: object) -> None:
    """Refuse what is no tensor: nothing could be differentiated through it."""
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise MnemonError(f"{name} must be a tensor, not a {type(value).__name__}; use torch.as_tensor({name}).")


def _check_classes(z: Tensor, y: Tensor, proxies: Tensor, seen: Tensor | None) -> None:
    _check_tensors(proxies=proxies, **({} if seen is None else {"seen": seen}))
    if proxies.ndim != 2 or proxies.shape[1] != z.shape[1]:
        raise MnemonError(
            f"proxies must hold a row of {z.shape[1]} values for each class, not a tensor {tuple(proxies.shape)}."
        )
    if seen is not None and (seen.shape != proxies.shape[:1] or seen.dtype != torch.bool):
        raise MnemonError(
            f"seen must hold one bool for each of the {len(proxies)} classes, not a tensor {tuple(seen.shape)} of {seen.dtype}."
        )
    if torch.compiler.is_compiling():
        return
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= len(proxies):
        raise MnemonError(
            f"labels are from 0 to {len(proxies) - 1}, one for each proxy, not {low if low < 0 else high}."
        )
    if seen is not None and not (known := seen[y.long()]).all():
        raise MnemonError(f"the class {int(y[~known][0])} is in the batch, but not among those that were seen.")
