"""MIR: replay the memory rows that the coming step would hurt most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon.learning.method import Batch, Draws, Plan, Span
from mnemon.learning.options import option
from mnemon.learning.replay import UniformReplay

if TYPE_CHECKING:
    from mnemon.learning.gradients import Parameters
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class MIR(UniformReplay):
    """Of K random memory rows, replay those whose loss rises most by a virtual step on the new samples:
    s(x) = l(x; θᵛ) − l(x; θ), θᵛ = θ − η ∇L(B_n), its criterion MI-1. The step itself starts from θ."""

    name: ClassVar[str] = "mir"
    summary: ClassVar[str] = "ER that replays the rows a virtual step on the new samples would hurt most"
    citation: ClassVar[str] = "Aljundi et al. 2019, Online Continual Learning with Maximally Interfered Retrieval"
    cost: ClassVar[str] = "3.2"
    needs_sample_loss: ClassVar[bool] = True

    candidates: int = option(
        50, "MIR: memory rows looked at per step, K (at least as many as are replayed)", least=1, most=100_000
    )
    statistics: str = option(
        "kept",
        "MIR: BatchNorm's running statistics after the look at the candidates: kept as they were, or moved by it as in the "
        "reference code",
        choices=("kept", "moved"),
        since="0.1",
    )

    def rows_needed(self) -> int:
        return min(self.looked_at(), self.memory_size)

    def plan(self, span: Span) -> Plan:
        return {"candidates": self.uniform_rows(span, "candidates", self.looked_at()), "write": self.reservoir(span)}

    def looked_at(self) -> int:
        return max(self.candidates, self.replay_size)

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        if len(draws["candidates"]) == 0:
            return None
        rows = self.chosen(learner, new, draws["candidates"], self.looked_at())  # [K], fewer while fewer are filled
        return self.most_hurt(learner, rows, learner.virtual_step(new))

    def most_hurt(self, learner: Learner, rows: Tensor, virtual: Parameters) -> Batch:
        """Those of the memory rows whose loss rises most from θ to θᵛ."""
        candidates = learner.replay(rows)
        if len(rows) <= self.replay_size:  # nothing to choose from
            return candidates
        with torch.no_grad():
            now = learner.sample_losses(candidates, moving=self.statistics == "moved")  # [K]
            rise = learner.sample_losses(candidates, virtual) - now
        chosen = rise.topk(self.replay_size).indices
        return Batch(candidates.x[chosen], candidates.y[chosen])
