"""The losses as pure functions of features and labels. Fixed shapes, no branches on values, no overflow."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemon.errors import check_known

DIVISORS = ("active", "batch")
BASE_TEMPERATURE = 0.07  # of the supervised contrastive loss in ER-AML: τ/0.07 stands before it


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
    check_known("divisor", divisor, DIVISORS)
    n = len(y)
    itself, nothing = _diagonal(n, z.dtype, z.device)
    S = z @ z.T  # [n, n]
    same = y[:, None] == y
    positive = same ^ itself

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
    itself = torch.eye(n, dtype=torch.bool, device=device)
    return itself, torch.where(itself, 0.0, -math.inf).to(dtype)


def proxy_nca(z: Tensor, y: Tensor, proxies: Tensor, *, seen: Tensor | None = None) -> Tensor:
    """Proxy-NCA (the paper's Eq. 7): mean of −log softmax_c(−‖z − p_c‖²)[y] over the classes seen; a scalar.

    z [n, d] unit rows, proxies [C, d], seen bool [C] (all classes when left out).
    """
    return F.cross_entropy(proxy_logits(z, proxies, seen), y)


def proxy_logits(z: Tensor, proxies: Tensor, seen: Tensor | None = None, *, scale: float = 2.0) -> Tensor:
    """scale/2 · −‖z − p_c‖² [n, C], up to ‖z‖², which is the same for every class; −inf for classes not seen.

    With unit proxies that is scale · (cos − 1), so the paper's distance is the scale 2.
    """
    logits = 2 * z @ proxies.T - proxies.square().sum(1)
    logits = logits * (scale / 2)  # not left out where it is 1, which changes no bit: in a stack it may be a tensor
    return logits if seen is None else only_seen(logits, seen)


def only_seen(logits: Tensor, seen: Tensor) -> Tensor:
    """The softmax of Eq. 1 runs over the classes seen so far: the other columns become −inf."""
    return logits.masked_fill(~seen, -math.inf)


def sup_con(z: Tensor, y: Tensor, *, temperature: float = 0.1) -> Tensor:
    """Supervised contrastive loss, SCR's: the mean over anchors i that have a positive of

        −1/|P_i| Σ_{p ∈ P_i} log( e^{S_ip/τ} / Σ_{a ≠ i} e^{S_ia/τ} ),      P_i = { p ≠ i : y_p = y_i }

    z [n, e] unit rows, y [n]; a scalar, 0 where no sample has a positive.
    """
    itself, _ = _diagonal(len(y), z.dtype, z.device)
    logits = (z @ z.T / temperature).masked_fill(itself, -math.inf)
    log_p = logits - logits.logsumexp(1, keepdim=True)
    positive = (y[:, None] == y) ^ itself
    count = positive.sum(1)  # |P_i|
    each = -torch.where(positive, log_p, 0.0).sum(1) / count.clamp(min=1)
    return each.sum() / (count > 0).sum().clamp(min=1)


def sup_con_pairs(z: Tensor, y: Tensor, v: Tensor, labels: Tensor, *, temperature: float = 0.2) -> Tensor:
    """ER-AML's contrastive loss of anchors z [b, d] against a positive of each, then a negative of each, v [2b, d]; unit rows:

        τ/0.07 · mean over i of −1/|P_i| Σ_{p ∈ P_i} log( e^{z_i·v_p/τ} / Σ_{k} e^{z_i·v_k/τ} ),      P_i = { p : y_p = y_i }

    The sums run over the pairs of all anchors. labels [2b] are the classes of v, −1 where an anchor has no pair: it then has
    no part in the loss. A scalar, 0 where no anchor has one.
    """
    there = labels >= 0
    # A number rather than −inf: where no pair is there at all, nothing may become nan.
    logits = (z @ v.T / temperature).masked_fill(~there, -1e30)
    log_p = logits - logits.logsumexp(1, keepdim=True)
    anchor = there[: len(z)]
    positive = (y[:, None] == labels) & anchor[:, None]  # [b, 2b]
    each = -torch.where(positive, log_p, 0.0).sum(1) / positive.sum(1).clamp(min=1)
    return temperature / BASE_TEMPERATURE * each.sum() / anchor.sum().clamp(min=1)


def pseudo_prototypical(f: Tensor, y: Tensor, prototypes: Tensor, seen: Tensor, *, temperature: float = 0.1) -> Tensor:
    """CoPE's pseudo-prototypical proxy loss; f [n, e] unit rows, prototypes [C, e] without gradient, seen bool [C].

    P_c(q, x) = e^{q·x/τ} / (e^{q·x/τ} + Z_c(x)),      Z_c(x) = Σ_{k ≠ c} e^{p_k·x/τ} over the classes seen
    attract   −log 1/|B^c| [ P_c(p_c, f_i) + Σ_{j ∈ B^c, j ≠ i} P_c(f_j, f_i) ]    f_j held fixed, for each i ∈ B^c
    repel     −log( 1 − ½ [ P_c(f_i, f_j) + P_c(p_c, f_j) ] )                      for each i ∈ B^c, j ∉ B^c
    L       = 1/n of the sum of all these terms
    """
    n = len(y)
    itself, _ = _diagonal(n, f.dtype, f.device)
    same = y[:, None] == y  # [i, j]
    logits = only_seen(f @ prototypes.T / temperature, seen)  # [j, C]: p_k·f_j/τ
    other = torch.arange(len(prototypes), device=y.device) != y[:, None]  # [i, C]: k ≠ y_i
    log_z = logits.masked_fill(~other[:, None], -math.inf).logsumexp(2)  # [i, j]: log Z_{y_i}(f_j)
    log_z = log_z.clamp(min=-1e4)  # Z is 0 while one class was seen: every P is 1, and the gradient 0
    to_prototype = logits[:, y].T - log_z  # [i, j]: the log-odds of P_{y_i}(p_{y_i}, f_j)
    to_sample = f @ f.T / temperature - log_z  # [i, j]: of P_{y_i}(f_i, f_j)

    # attract: anchors in the columns; within a class log_z[j, i] is the same for every j
    held = f.detach() @ f.T / temperature - log_z
    pulls = F.logsigmoid(torch.where(itself, to_prototype, held)).masked_fill(~same, -math.inf)
    attract = same.sum(0).to(f).log() - pulls.logsumexp(0)
    # repel: 1 − ½(P + P') = ½(σ(−odds) + σ(−odds'))
    pushes = torch.logaddexp(F.logsigmoid(-to_sample), F.logsigmoid(-to_prototype)) - math.log(2)
    return (attract.sum() - pushes.masked_fill(same, 0.0).sum()) / n
