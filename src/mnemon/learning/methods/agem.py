"""A-GEM: learn the new samples, but never against a random batch of old ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon.learning.method import Batch, Method, Plan, Span, StepResult
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class AGEM(Method):
    """g = ∇L(B_n), g_ref = ∇L(B_ref). Where g·g_ref < 0, g loses its part along g_ref (its Eq. 11), so that to
    first order the step does not raise the loss of the memory's batch, which is never learned itself."""

    name: ClassVar[str] = "a-gem"
    summary: ClassVar[str] = "plain SGD on the new samples, projected so as not to hurt a batch from the memory"
    citation: ClassVar[str] = "Chaudhry et al. 2019, Efficient Lifelong Learning with A-GEM"
    cost: ClassVar[str] = "1"
    own_passes: ClassVar[bool] = True

    reference_size: int = option(
        0,
        "A-GEM: rows of the batch B_ref not to be hurt (0: replay_size); GSS: rows of each memory batch compared with",
        least=0,
        most=100_000,
        since="0.2",
    )

    def most_replayed(self) -> int:
        return self.reference_size or self.replay_size

    def rows_needed(self) -> int:
        return min(self.most_replayed(), self.memory_size)

    def plan(self, span: Span) -> Plan:
        return {
            "replay": self.uniform_rows(span, count=self.most_replayed()),
            "write": self.reservoir(span),
        }

    def gradient(self, learner: Learner, new: Batch, replayed: Batch | None) -> StepResult:
        done = learner.loss_and_gradient(new, len(new))
        if replayed is None:
            return done
        g_ref = learner.loss_and_gradient(replayed, 0).gradient  # a forward pass of its own
        return done._replace(gradient=project(done.gradient, g_ref))


def project(g: tuple[Tensor, ...], g_ref: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """g − (g·g_ref / ‖g_ref‖²) g_ref if g·g_ref < 0, else g; over the whole parameter vector."""
    dot = torch.stack([(a * b).sum() for a, b in zip(g, g_ref, strict=True)]).sum()
    square = torch.stack([b.square().sum() for b in g_ref]).sum()
    # Where g_ref is 0 (a loss of 0, as of one class) there is nothing to keep off from.
    share = torch.where((dot < 0) & (square > 0), dot / square.clamp(min=1e-30), 0.0)
    return tuple(a - share * b for a, b in zip(g, g_ref, strict=True))
