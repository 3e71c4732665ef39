"""GMED: edit memory images so that they become harder to keep, then replay them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon.learning.memory import Column
from mnemon.learning.method import Batch, Draws, Plan, Span, StepResult
from mnemon.learning.methods.mir import MIR
from mnemon.learning.options import option
from mnemon.learning.replay import UniformReplay

if TYPE_CHECKING:
    from mnemon.learning.gradients import Parameters
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class GMEDER(UniformReplay):
    """x ← x + α ρ^k [ (g₂ − g₁) − β g₁ ],  g₁ = ∂L(B_r; θ)/∂x,  g₂ = ∂L(B_r; θᵛ)/∂x,  θᵛ = θ − η ∇L(B_n): the loss that a step
    on the new samples would add is raised, the loss itself held back. k counts the earlier edits of a row. L is the mean
    over the batch; to first order θᵛ does not depend on x. Edits live in the network's input space and are not clipped. With
    several iterations over a batch, only the first one edits."""

    name: ClassVar[str] = "gmed-er"
    summary: ClassVar[str] = "ER that edits the images it replays so that they are harder to keep"
    citation: ClassVar[str] = "Jin et al. 2021, Gradient-based Editing of Memory Examples"
    cost: ClassVar[str] = "2.2"
    needs_sample_loss: ClassVar[bool] = True
    columns: ClassVar[dict[str, Column]] = {"edits": Column(0)}
    edits_memory: ClassVar[bool] = True

    edit_rate: float = option(0.1, "GMED: length α of an edit", above=0)
    edit_hold: float = option(0.01, "GMED: weight β of the loss that is held back")
    edit_decay: float = option(1.0, "GMED: factor ρ on each further edit of a row", above=0)

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        if len(draws["replay"]) == 0:
            return None
        rows = self.chosen(learner, new, draws["replay"])
        self.edit(learner, rows, learner.virtual_step(new))
        return learner.replay(rows)

    def retrieve_again(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        return UniformReplay.retrieve(self, learner, new, draws)

    def edit(self, learner: Learner, rows: Tensor, virtual: Parameters) -> None:
        """Edit memory rows in place; θᵛ is `virtual`."""
        batch = learner.replay(rows)
        x = batch.x
        g1, g2 = learner.input_gradient(batch), learner.input_gradient(batch, virtual)
        edits = learner.memory.extra["edits"]
        k = edits.index_select(0, rows).reshape(-1, *[1] * (x.ndim - 1))  # [r, 1, …]
        length = self.edit_rate * self.edit_decay ** k.to(x)
        learner.memory.x[rows] = x + length * ((g2 - g1) - self.edit_hold * g1)
        edits[rows] = k.flatten() + 1

    def write(self, learner: Learner, x: Tensor, y: Tensor, draws: Draws, done: StepResult) -> None:
        never = torch.zeros_like(y)  # a new sample has not been edited
        learner.memory.write(draws["write"], learner.normalise(x), y, edits=never)


@dataclass(frozen=True)
class GMEDMIR(GMEDER, MIR):
    """MIR's rows are replayed as they are; ten other random rows are edited and stay in the memory for later."""

    name: ClassVar[str] = "gmed-mir"
    summary: ClassVar[str] = "MIR, and beside it ten random memory images edited for later"
    citation: ClassVar[str] = "Jin et al. 2021, Gradient-based Editing of Memory Examples"
    cost: ClassVar[str] = "3.8"
    drawn_for_write: ClassVar[tuple[str, ...]] = ("write", "edit")  # and for the first iteration

    def plan(self, span: Span) -> Plan:
        return super().plan(span) | {"edit": self.uniform_rows(span, "edit")}

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        if len(draws["edit"]) == 0:
            return None
        virtual = learner.virtual_step(new)
        candidates = self.chosen(learner, new, draws["candidates"], self.looked_at())
        replayed = self.most_hurt(learner, candidates, virtual)  # a copy of the rows: the edit comes after
        self.edit(learner, self.chosen(learner, new, draws["edit"]), virtual)
        return replayed

    def retrieve_again(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        return MIR.retrieve(self, learner, new, draws)
