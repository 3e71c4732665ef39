"""ER-AML: ER whose new samples learn from pairs of their own classes, and only the replayed ones by cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon import rng
from mnemon.learning.losses import sup_con_pairs, unit
from mnemon.learning.memory import EMPTY
from mnemon.learning.method import Batch, Draws, Method, Plan, Span, StepResult, joined
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class ERAML(Method):
    """γ · L_1(B_n, P) + L_2(B_r). L_1 is a supervised contrastive loss on the normalised features. P holds, for each new
    sample, a random sample of its class and one of another class of B_n, from M ∪ B_n; so no old class is a negative. L_2 is
    the cross-entropy of cosines (`objectives.Cosine`). As long as there is no memory, the loss is L_2(B_n)."""

    name: ClassVar[str] = "er-aml"
    summary: ClassVar[str] = "ER; new samples learn from pairs of the classes of their batch, by a contrastive loss"
    citation: ClassVar[str] = "Caccia et al. 2022, New Insights on Reducing Abrupt Representation Change"
    cost: ClassVar[str] = "2"
    default_objective: ClassVar[str] = "cosine"
    default_classifier: ClassVar[str] = "proxy"

    pair_temperature: float = option(0.2, "ER-AML: temperature τ of the similarities of new samples", above=0)
    pair_weight: float = option(1.0, "ER-AML: weight γ of the contrastive part", least=0)

    def most_replayed(self) -> int:
        return self.replay_size + 2 * self.batch_size

    def plan(self, span: Span) -> Plan:
        u = rng.uniform(span.seed, "pairs", 2 * span.sample, 2 * span.steps * span.batch)
        return super().plan(span) | {"pairs": u.reshape(span.steps, 2, span.batch)}

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        """B_r, and behind it P."""
        replayed = super().retrieve(learner, new, draws)
        return None if replayed is None else joined(replayed, self.pairs(learner, new, draws["pairs"]))

    def pairs(self, learner: Learner, new: Batch, u: Tensor) -> Batch:
        """A positive of each new sample, then a negative of each; u [2, b] in [0, 1). A sample that lacks one of the two has
        no pair: other samples take the places, and their class is EMPTY."""
        size, b = self.memory_size, len(new)
        y = torch.cat([learner.memory.y[:size], new.y])  # M ∪ B_n, [M + b]
        same = new.y[:, None] == y  # [b, M + b]
        present = same.any(0)  # samples of the classes of B_n
        itself = torch.arange(size, size + b, device=y.device)[:, None] == torch.arange(len(y), device=y.device)
        positive, at = pick(same & ~itself, u[0])
        negative, beside = pick(present & ~same, u[1])
        whole = (positive & negative).repeat(2)
        rows = torch.cat([at, beside])  # [2b]
        stored, came = learner.replay(rows.clamp(max=size - 1)), new.x.index_select(0, (rows - size).clamp(min=0))
        of_memory = (rows < size).reshape(-1, *[1] * (came.ndim - 1))
        return Batch(torch.where(of_memory, stored.x, came), torch.where(whole, y[rows], EMPTY))

    def gradient(self, learner: Learner, new: Batch, replayed: Batch | None) -> StepResult:
        if replayed is None:
            return learner.loss_and_gradient(new, len(new))
        batch, b = joined(new, replayed), len(new)
        n = len(batch) - 2 * b  # of B_n ∪ B_r
        out = learner.forward(batch, b)
        z = unit(out.features)
        contrast = sup_con_pairs(z[:b], new.y, z[n:], batch.y[n:], temperature=self.pair_temperature)
        loss = self.pair_weight * contrast + learner.objective(out.part(b, n), batch.y[b:n], learner.seen, 0)
        return learner.with_gradient(loss, out.part(0, n), batch.y[:n])


def pick(allowed: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """For each row of `allowed` [b, n] whether it allows any place, and one of those it allows, uniformly by u [b]."""
    count = allowed.sum(1)
    rank = torch.minimum((u * count).long(), (count - 1).clamp(min=0))  # u · count may be rounded up to the count
    place = (allowed.cumsum(1) <= rank[:, None]).sum(1)
    return count > 0, place.clamp(max=allowed.shape[1] - 1)
