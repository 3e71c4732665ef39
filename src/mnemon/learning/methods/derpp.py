"""DER++: ER that also keeps the logits its samples had when they came, and replays those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon.learning.losses import only_seen
from mnemon.learning.memory import Column
from mnemon.learning.method import Batch, Draws, Method, Plan, Span, StepResult, joined
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class DERPP(Method):
    """L(B_n) + a · mean (o(x) − õ)² over B_r1 + b · L(B_r2), its Eq. 6, over both draws and B_n.

    õ are the logits a sample had in the step that learned it first, over the classes seen by then (−∞ for the others).
    """

    name: ClassVar[str] = "der++"
    summary: ClassVar[str] = "ER that replays ten more rows and holds their logits where they were when they came"
    citation: ClassVar[str] = "Buzzega et al. 2020, Dark Experience for General Continual Learning"
    cost: ClassVar[str] = "1.5"
    columns: ClassVar[dict[str, Column]] = {"logits": Column(-torch.inf, per_class=True)}
    needs: ClassVar[str | None] = "head"

    logit_weight: float = option(0.2, "DER++: weight a of the stored logits", least=0)
    label_weight: float = option(0.5, "DER++: weight b of the labels of the second draw", least=0)

    def most_replayed(self) -> int:
        return 2 * self.replay_size

    def plan(self, span: Span) -> Plan:
        return super().plan(span) | {"candidates": self.uniform_rows(span, "candidates")}

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        if len(draws["replay"]) == 0:
            return None
        return learner.replay(torch.cat([draws["replay"], draws["candidates"]]))  # B_r1, B_r2

    def gradient(self, learner: Learner, new: Batch, replayed: Batch | None) -> StepResult:
        if replayed is None:
            return learner.loss_and_gradient(new, len(new))
        batch, b, r = joined(new, replayed), len(new), len(replayed) // 2
        out = learner.forward(batch, b)
        assert replayed.rows is not None
        assert out.logits is not None
        loss = learner.objective(out.part(0, b), batch.y[:b], learner.seen, b)
        loss = loss + self.logit_weight * distance(
            out.logits[b : b + r], learner.memory.extra["logits"][replayed.rows[:r]]
        )
        labels = learner.objective(out.part(b + r, b + 2 * r), batch.y[b + r :], learner.seen, 0)
        return learner.with_gradient(loss + self.label_weight * labels, out, batch.y)

    def write(self, learner: Learner, x: Tensor, y: Tensor, draws: Draws, done: StepResult) -> None:
        assert done.out.logits is not None
        learner.memory.write(draws["write"], x, y, logits=only_seen(done.out.logits[: len(y)], learner.seen))


def distance(logits: Tensor, stored: Tensor) -> Tensor:
    """Mean squared difference over the places that were stored; both [r, capacity]."""
    there = stored > -torch.inf
    return torch.where(there, (logits - stored.masked_fill(~there, 0.0)).square(), 0.0).sum() / there.sum()
