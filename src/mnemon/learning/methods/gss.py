"""GSS-Greedy: a memory of samples whose gradients point into different directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mnemon import rng
from mnemon.learning.memory import Column, free_slots, row_keys
from mnemon.learning.method import Draws, Method, Plan, Span, StepResult
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner

PIECES = 256  # of a long product on a GPU
FIRST_SCORE = 0.1  # of the first batch, which there is nothing to compare with


@dataclass(frozen=True)
class GSS(Method):
    """Its Algorithm 2. A sample's score is the largest cosine of its gradient g_i with n gradients G_k of memory batches.

    While there is room every sample enters. Then a batch is considered only if max_k cos(∇L(B_n), G_k) < 0: each sample is
    paired with a row, drawn by its score s_m, and replaces it with probability ŝ_m / (ŝ_m + ŝ_i), ŝ = (s + 1)/2. All
    gradients are over all parameters, with BatchNorm's running statistics.
    """

    name: ClassVar[str] = "gss"
    summary: ClassVar[str] = "ER with a memory chosen for diverse gradients (GSS-Greedy)"
    citation: ClassVar[str] = "Aljundi et al. 2019, Gradient based Sample Selection for Online Continual Learning"
    cost: ClassVar[str] = "6.5"
    fills_first: ClassVar[bool] = True
    row_tables: ClassVar[int] = 1
    memory_rule: ClassVar[str] = "gradient diversity"
    drawn_for_write: ClassVar[tuple[str, ...]] = ("write", "references", "gumbel", "accept")
    needs_sample_loss: ClassVar[bool] = True
    columns: ClassVar[dict[str, Column]] = {"score": Column(0.0)}

    references: int = option(10, "GSS: gradients of memory batches a sample is compared with, n", least=1, most=1000)
    reference_size: int = option(
        10,
        "A-GEM: rows of the batch B_ref not to be hurt (0: replay_size); GSS: rows of each memory batch compared with",
        least=1,
        most=1000,
    )

    def rows_needed(self) -> int:
        return min(max(self.references * self.reference_size, self.replay_size), self.memory_size)

    def plan(self, span: Span) -> Plan:
        filled, b, seed = int(self.filled(span)[0]), span.batch, span.seed
        size = min(self.reference_size, filled)
        n = min(self.references, filled // size) if filled else 0
        rows = self.uniform_rows(span, "candidates", self.references * self.reference_size)[:, : n * size]
        plan: Plan = {"replay": self.uniform_rows(span), "references": rows.reshape(span.steps, n, size)}
        if filled < self.memory_size:
            return plan | {"write": free_slots(span.sample, span.steps, b, self.memory_size)}
        u = row_keys(seed, span.step, span.steps, self.row_tables, self.memory_size)[:, 0]
        accept = rng.uniform(seed, "accept", span.sample, span.steps * b).reshape(span.steps, b)
        with np.errstate(divide="ignore"):  # u = 0: never chosen
            return plan | {"gumbel": -np.log(-np.log(u)), "accept": accept}

    def write(self, learner: Learner, x: Tensor, y: Tensor, draws: Draws, done: StepResult) -> None:
        memory, rows = learner.memory, draws["references"]  # [n, size]
        if len(rows) == 0:
            memory.write(draws["write"], x, y, score=torch.full_like(done.loss, FIRST_SCORE).expand(len(y)))
            return
        reference = learner.replay(rows.flatten())
        g = learner.batch_gradients(learner.normalise(x)[:, None], y[:, None])  # of each sample
        G = learner.batch_gradients(reference.x.reshape(*rows.shape, *x.shape[1:]), reference.y.reshape(rows.shape))
        if g[0].is_cuda:  # one product instead of sixty
            g, G = [torch.cat(g, 1)], [torch.cat(G, 1)]
        dots = torch.stack([products(a, b) for a, b in zip(g, G, strict=True)]).sum(0)  # g_i · G_k [b, n]
        score = (dots / (lengths(g)[:, None] * lengths(G)).clamp(min=1e-30)).amax(1)  # s_i [b]
        if "write" in draws:  # there is room
            memory.write(draws["write"], x, y, score=score)
            return
        s = memory.extra["score"][: memory.size]
        weight = (s - s.min()) / (s.max() - s.min() + 0.01) + 1e-12  # the last, lest fewer than b rows can be drawn
        pairs = min(len(y), memory.size)
        slots = (weight.log() + draws["gumbel"]).topk(pairs).indices  # drawn by weight, without replacement
        old, new = (s[slots] + 1) / 2, (score[:pairs] + 1) / 2  # ŝ
        # ∇L(B_n) is the mean of the g_i (with running statistics samples do not touch each other); its sign decides.
        diverse = dots.mean(0).amax() < 0
        taken = diverse & (draws["accept"][:pairs] * (old + new) < old)
        memory.write(torch.where(taken, slots, memory.size), x[:pairs], y[:pairs], score=score[:pairs])


def products(a: Tensor, b: Tensor) -> Tensor:
    """a @ b.T for few, long rows. On a GPU the sum is split into pieces, which many multiprocessors compute."""
    return in_pieces(a, b) if a.is_cuda else a @ b.T


def in_pieces(a: Tensor, b: Tensor) -> Tensor:
    """a @ b.T as a sum of products."""
    a, b = (F.pad(t, (0, -t.shape[1] % PIECES)).reshape(len(t), PIECES, -1) for t in (a, b))
    return torch.einsum("ipk,jpk->pij", a, b).sum(0)


def lengths(g: list[Tensor]) -> Tensor:
    """‖g_i‖ over all parameters [n]."""
    return torch.stack([part.square().sum(1) for part in g]).sum(0).sqrt()
