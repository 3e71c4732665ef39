"""The losses by name, each with its hyper-parameters: what is minimised over the new and the replayed samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.learning.losses import (
    DIVISORS,
    multi_similarity,
    only_seen,
    proxy_logits,
    pseudo_prototypical,
    sup_con,
    unit,
)
from mnemon.learning.network import Network, Output
from mnemon.learning.options import option

TEMPERATURE = "SCR, CoPE, PCR, cosine: temperature τ of the similarities"  # the option's help


@dataclass(frozen=True)
class Objective:
    """A loss, and what it needs on top of the features."""

    name: ClassVar[str]
    trains: ClassVar[str | None] = None  # class rows with a gradient: "head", "proxies" or none
    keeps: ClassVar[str | None] = None  # class rows without: "prototypes", "prior" or none
    capturable: ClassVar[bool] = True  # as of a method
    stackable: ClassVar[bool] = True

    def layers(self, d: int) -> nn.Module | None:
        """Layers that turn the features [n, d] into the embedding [n, e] which the loss works on."""
        return None

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        """The scalar loss; the first `new` rows are the new samples, the rest replayed ones. seen: bool [capacity]."""
        raise TypeError(f"the loss {self.name} does not say what it is.")

    def per_sample(self, out: Output, y: Tensor, seen: Tensor) -> Tensor:
        """The discriminative part for each sample [n], by which methods score samples."""
        raise TypeError(f"the loss {self.name} has no value for a single sample.")

    def after(self, net: Network, out: Output, y: Tensor) -> None:
        """What follows the SGD step; `out` is what the network gave before it, for the classes y."""


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Cross-entropy over the classes seen so far (Eq. 1)."""

    name: ClassVar[str] = "ce"
    trains: ClassVar[str | None] = "head"

    def logits(self, out: Output, seen: Tensor) -> Tensor:
        assert out.logits is not None
        return only_seen(out.logits, seen)

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        return F.cross_entropy(self.logits(out, seen), y)

    def per_sample(self, out: Output, y: Tensor, seen: Tensor) -> Tensor:
        return F.cross_entropy(self.logits(out, seen), y, reduction="none")


@dataclass(frozen=True)
class ProxyNCA(CrossEntropy):
    """Proxy-NCA (Eq. 7): cross-entropy of −‖z − p_c‖². Proxies go back to unit length after each step (N_P = 1)."""

    name: ClassVar[str] = "pnca"
    trains: ClassVar[str | None] = "proxies"
    scale: float = option(
        2.0, "Proxy-NCA: factor on the cosine in the logits; 2 is the paper's −‖z − p‖²", above=0, since="0.2"
    )

    def logits(self, out: Output, seen: Tensor) -> Tensor:
        return self.to_proxies(unit(out.features), out, seen)

    def to_proxies(self, z: Tensor, out: Output, seen: Tensor) -> Tensor:
        assert out.proxies is not None
        return proxy_logits(z, out.proxies, seen, scale=self.scale)

    def after(self, net: Network, out: Output, y: Tensor) -> None:
        assert net.proxies is not None
        with torch.no_grad():
            net.proxies.copy_(unit(net.proxies))


@dataclass(frozen=True)
class Cosine(CrossEntropy):
    """Cross-entropy of cos(f, p_c)/τ over the classes seen. The proxies keep the length that SGD gives them."""

    name: ClassVar[str] = "cosine"
    trains: ClassVar[str | None] = "proxies"
    temperature: float = option(0.1, TEMPERATURE, above=0)

    def logits(self, out: Output, seen: Tensor) -> Tensor:
        assert out.proxies is not None
        return only_seen(unit(out.features) @ unit(out.proxies).T / self.temperature, seen)


@dataclass(frozen=True)
class PCRLoss(Cosine):
    """PCR: cross-entropy of cos(f, p_c)/τ + log n_c over the classes of the batch.

    Each sample is compared with the proxy of every sample of the batch: a class that has n_c samples in it counts n_c times."""

    name: ClassVar[str] = "pcr"
    temperature: float = option(0.09, TEMPERATURE, above=0)

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        count = (y[:, None] == torch.arange(len(seen), device=y.device)).sum(0).to(out.features)  # n_c, [capacity]
        return F.cross_entropy(self.logits(out, count > 0) + count.clamp(min=1).log(), y)


@dataclass(frozen=True)
class MultiSimilarity(Objective):
    """Multi-Similarity loss with hard mining (Eq. 3, 4)."""

    name: ClassVar[str] = "ms"
    alpha: float = option(2.0, "Multi-Similarity: sharpness of the positive pairs α", above=0)
    beta: float = option(50.0, "Multi-Similarity: sharpness of the negative pairs β", above=0)
    lam: float = option(0.5, "Multi-Similarity: margin λ")
    eps: float = option(0.1, "Multi-Similarity: mining slack ε")
    divisor: str = option(
        "active", "Multi-Similarity: mean over the anchors with a mined pair (active) or all (batch)", choices=DIVISORS
    )

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        return self.pairs(unit(out.features), y)

    def pairs(self, z: Tensor, y: Tensor) -> Tensor:
        return multi_similarity(
            z, y, alpha=self.alpha, beta=self.beta, lam=self.lam, eps=self.eps, divisor=self.divisor
        )


@dataclass(frozen=True)
class HybridLoss(ProxyNCA, MultiSimilarity):
    """L_MS + γ·L_PNCA (Eq. 8): the paper's objective."""

    name: ClassVar[str] = "hybrid"
    gamma: float = option(0.1, "weight γ of the discriminative part beside Multi-Similarity", least=0)

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        z = unit(out.features)
        return self.pairs(z, y) + self.gamma * F.cross_entropy(self.to_proxies(z, out, seen), y)


@dataclass(frozen=True)
class ACE(CrossEntropy):
    """ER-ACE's asymmetric cross-entropy: new samples compete only with the classes of their batch, replayed with all seen.

    So the new classes do not push the logits of the old ones down.
    """

    name: ClassVar[str] = "ace"

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        assert out.logits is not None
        present = (y[:new, None] == torch.arange(len(seen), device=y.device)).any(0)  # the classes of B_n
        parts = []
        if new:
            parts.append(F.cross_entropy(only_seen(out.logits[:new], present), y[:new]))
        if new < len(y):
            parts.append(F.cross_entropy(only_seen(out.logits[new:], seen), y[new:]))
        return torch.stack(parts).sum()


@dataclass(frozen=True)
class HybridACELoss(ACE, MultiSimilarity):
    """L_MS + γ·L_ACE: the hybrid with ER-ACE's loss in the place of Proxy-NCA (ours, not the paper's)."""

    name: ClassVar[str] = "hybrid-ace"
    gamma: float = option(1.0, "weight γ of the discriminative part beside Multi-Similarity", least=0)

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        return self.pairs(unit(out.features), y) + self.gamma * ACE.__call__(self, out, y, seen, new)


@dataclass(frozen=True)
class HybridCELoss(CrossEntropy, MultiSimilarity):
    """L_MS + γ·L_CE: the hybrid with plain cross-entropy in the place of Proxy-NCA (ours, not the paper's)."""

    name: ClassVar[str] = "hybrid-ce"
    gamma: float = option(1.0, "weight γ of the discriminative part beside Multi-Similarity", least=0)

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        return self.pairs(unit(out.features), y) + self.gamma * CrossEntropy.__call__(self, out, y, seen, new)


@dataclass(frozen=True)
class LogitAdjusted(CrossEntropy):
    """LAS: cross-entropy of o + τ·log π, with π how often each class came lately; at test the logits o are plain.

    A class that is frequent now gets its logit raised in training, so it need not be learned.
    """

    name: ClassVar[str] = "las"
    keeps: ClassVar[str | None] = "prior"
    prior_weight: float = option(1.0, "LAS: weight τ of the log prior", least=0)
    prior_decay: float = option(0.99, "LAS: how much of the class prior is kept at each step", least=0, below=1)

    def frequencies(self, out: Output, y: Tensor) -> Tensor:
        """The running label counts with this batch in [capacity]; only their ratios matter."""
        assert out.prior is not None
        now = (y[:, None] == torch.arange(len(out.prior), device=y.device)).sum(0).to(out.prior) / len(y)
        return self.prior_decay * out.prior + (1 - self.prior_decay) * now

    def adjusted(self, out: Output, counts: Tensor, seen: Tensor) -> Tensor:
        assert out.logits is not None
        prior = (counts / counts.sum().clamp(min=1e-30)).clamp(min=1e-4)
        return only_seen(out.logits + self.prior_weight * prior.log(), seen)

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        return F.cross_entropy(self.adjusted(out, self.frequencies(out, y), seen), y)

    def per_sample(self, out: Output, y: Tensor, seen: Tensor) -> Tensor:
        assert out.prior is not None
        return F.cross_entropy(self.adjusted(out, out.prior, seen), y, reduction="none")

    def after(self, net: Network, out: Output, y: Tensor) -> None:
        assert net.prior is not None
        net.prior.copy_(self.frequencies(out, y))


@dataclass(frozen=True)
class SupCon(Objective):
    """Supervised contrastive loss through a small MLP on the features (SCR)."""

    name: ClassVar[str] = "supcon"
    temperature: float = option(0.1, TEMPERATURE, above=0)
    projection_size: int = option(128, "SCR: width of the projection the loss is taken on", least=1, most=100_000)

    def layers(self, d: int) -> nn.Module:
        return nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, self.projection_size))

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        assert out.embedding is not None
        return sup_con(unit(out.embedding), y, temperature=self.temperature)


@dataclass(frozen=True)
class CoPELoss(Objective):
    """CoPE's pseudo-prototypical proxy loss; each class has a prototype, a running mean of its embeddings."""

    name: ClassVar[str] = "cope"
    keeps: ClassVar[str | None] = "prototypes"
    temperature: float = option(0.1, TEMPERATURE, above=0)
    momentum: float = option(0.99, "CoPE: how much of a prototype is kept at each step, m", least=0, below=1)
    embedding_size: int = option(100, "CoPE: width e of the embedding", least=1, most=100_000)

    def layers(self, d: int) -> nn.Module:
        return nn.Linear(d, self.embedding_size)

    def __call__(self, out: Output, y: Tensor, seen: Tensor, new: int) -> Tensor:
        assert out.embedding is not None
        assert out.prototypes is not None
        return pseudo_prototypical(unit(out.embedding), y, out.prototypes, seen, temperature=self.temperature)

    def per_sample(self, out: Output, y: Tensor, seen: Tensor) -> Tensor:
        """−log P_y(p_y, f): the attraction to the class's own prototype."""
        return F.cross_entropy(prototype_logits(out, seen) / self.temperature, y, reduction="none")

    def after(self, net: Network, out: Output, y: Tensor) -> None:
        """p_c ← m p_c + (1 − m) · mean of the f of class c in B_n ∪ B_r, as they were before the step; for the c in it."""
        assert out.embedding is not None
        assert net.prototypes is not None
        member = (y == torch.arange(net.capacity, device=y.device)[:, None]).to(out.embedding)  # [capacity, n]
        count = member.sum(1, keepdim=True)
        mean = member @ unit(out.embedding) / count.clamp(min=1)
        moved = self.momentum * net.prototypes + (1 - self.momentum) * mean
        net.prototypes.copy_(torch.where(count > 0, moved, net.prototypes))


@dataclass(frozen=True)
class NoLoss(Objective):
    """Nothing is trained by a gradient."""

    name: ClassVar[str] = "none"


def prototype_logits(out: Output, seen: Tensor) -> Tensor:
    """p_c · f [n, capacity], over the classes seen."""
    assert out.embedding is not None
    assert out.prototypes is not None
    return only_seen(unit(out.embedding) @ out.prototypes.T, seen)


LOSSES = (
    CrossEntropy,
    MultiSimilarity,
    ProxyNCA,
    Cosine,
    HybridLoss,
    ACE,
    HybridACELoss,
    HybridCELoss,
    LogitAdjusted,
    SupCon,
    PCRLoss,
    CoPELoss,
    NoLoss,
)
OBJECTIVES: dict[str, type[Objective]] = {loss.name: loss for loss in LOSSES}
