"""The paper's losses as pure functions of features and labels. Fixed shapes, no branches on values, no overflow."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemon.errors import unknown

DIVISORS = ("active", "batch")


def unit(f: Tensor) -> Tensor:
    """z = f / max(‖f‖, 1e-12), row by row."""
    return F.normalize(f, dim=1)


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
    """Multi-Similarity loss with hard mining (the paper's Eq. 3 and 4); a scalar.

        P_i = { j ≠ i, y_j = y_i : S_ij < max_{y_k ≠ y_i} S_ik + ε }      N_i = { y_j ≠ y_i : S_ij > min_{y_k = y_i} S_ik − ε }
        L   = 1/n Σ_i  1/α log(1 + Σ_{P_i} e^{−α(S_ij − λ)})  +  1/β log(1 + Σ_{N_i} e^{β(S_ij − λ)})

    An anchor is not its own positive. An anchor without a positive or without a negative mines nothing and adds 0.
    `divisor`: n counts the anchors that mined a pair ("active") or all of them ("batch", as Eq. 3 prints it).
    """
    if divisor not in DIVISORS:
        raise unknown("divisor", divisor, DIVISORS)
    n = len(y)
    self_, nothing = _diagonal(n, z.dtype, z.device)
    S = z @ z.T  # [n, n]
    same = y[:, None] == y
    positive = same ^ self_

    fixed = S.detach()  # mining chooses pairs, it is not differentiated
    hardest_negative = fixed.masked_fill(same, -math.inf).amax(1, keepdim=True)  # −inf where there is none
    hardest_positive = fixed.masked_fill(~positive, math.inf).amin(1, keepdim=True)
    # "not ≥" and "not ≤" rather than < and >: a pair that is not a number is mined, so that divergence shows in the loss.
    P = positive & ~(fixed >= hardest_negative + eps)
    N = ~same & ~(fixed <= hardest_positive - eps)

    above = S - lam
    pull = torch.where(P, -alpha * above, nothing).logsumexp(1) / alpha
    push = torch.where(N, beta * above, nothing).logsumexp(1) / beta
    return (pull + push).sum() / (P.any(1).sum().clamp(min=1) if divisor == "active" else n)


@lru_cache(maxsize=64)
def _diagonal(n: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """The diagonal [n, n] as a mask, and what an empty place holds: −inf, and 0 on the diagonal.

    So log(1 + Σ e^s) is one logsumexp: the anchor's own, never used place provides the e^0 = 1.
    """
    self_ = torch.eye(n, dtype=torch.bool, device=device)
    return self_, torch.where(self_, 0.0, -math.inf).to(dtype)


def proxy_nca(z: Tensor, y: Tensor, proxies: Tensor, *, seen: Tensor | None = None) -> Tensor:
    """Proxy-NCA (the paper's Eq. 7): mean of −log softmax_c(−‖z − p_c‖²)[y] over the classes seen; a scalar.

    z [n, d] unit rows, proxies [C, d], seen bool [C] (all classes when left out).
    """
    return F.cross_entropy(proxy_logits(z, proxies, seen), y)


def proxy_logits(z: Tensor, proxies: Tensor, seen: Tensor | None = None) -> Tensor:
    """−‖z − p_c‖² [n, C], up to ‖z‖², which is the same for every class; −inf for classes not seen."""
    logits = 2 * z @ proxies.T - proxies.square().sum(1)
    return logits if seen is None else only_seen(logits, seen)


def only_seen(logits: Tensor, seen: Tensor) -> Tensor:
    """The softmax of Eq. 1 runs over the classes seen so far: the other columns become −inf."""
    return logits.masked_fill(~seen, -math.inf)
