"""ASER_μ: replay and keep the samples with the largest adversarial and cooperative KNN-Shapley values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mnemon import rng
from mnemon.learning.memory import EMPTY, class_ranks, class_table, free_slots, row_keys
from mnemon.learning.method import Batch, Draws, Method, Plan, Span, StepResult
from mnemon.learning.options import option
from mnemon.learning.shapley import Points, points, shapley, together

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class ASER(Method):
    """From the first M samples on. Retrieve: n_c candidates a class from the memory, scored by the mean of their Shapley values
    s for other memory rows (cooperative) minus that for the new samples (adversarial), ASV_μ; the largest are
    replayed. Write: memory rows drawn at random and B_n compete by the sum of their values for n_c rows a class and those new
    samples whose class has a small share of the memory; the |B_n| lowest are out.
    """

    name: ClassVar[str] = "aser"
    summary: ClassVar[str] = "ER that replays and keeps what matters most to nearest neighbours (ASER_μ)"
    citation: ClassVar[str] = (
        "Shim et al. 2021, Online Class-Incremental Continual Learning with Adversarial Shapley Value"
    )
    cost: ClassVar[str] = "7 (10 classes) to 62 (100)"
    fills_first: ClassVar[bool] = True
    row_tables: ClassVar[int] = 3
    drawn_for_write: ClassVar[tuple[str, ...]] = ("write", "threshold")
    memory_rule: ClassVar[str] = "Shapley value"

    neighbours: int = option(3, "ASER: neighbours K of the classifier behind the Shapley values", least=1, most=1000)
    per_class: int = option(9, "ASER: memory rows of each class looked at, n_c", least=1, most=1000)

    @property
    def n_c(self) -> int:
        return min(self.per_class, self.memory_size)  # no class has more rows

    def plan(self, span: Span) -> Plan:
        if self.filled(span)[0] < self.memory_size:
            slots = free_slots(span.sample, span.steps, span.batch, self.memory_size)
            return {"replay": self.uniform_rows(span), "write": slots}
        return {
            "rows": row_keys(span.seed, span.step, span.steps, self.row_tables, self.memory_size),
            "threshold": rng.uniform(span.seed, "accept", span.step, span.steps),
        }

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        if "replay" in draws:
            return super().retrieve(learner, new, draws)
        y, keys = learner.memory.y[: self.memory_size], draws["rows"][0]
        ranks = class_ranks(y, keys)
        tables = [class_table(y, ranks, first, self.n_c, learner.possible_classes) for first in (0, self.n_c)]
        candidates, others, came = points(learner, tables, new)
        cooperative = shapley(others, candidates, self.neighbours).sum(0) / others.real.sum().clamp(min=1)
        adversarial = shapley(came, candidates, self.neighbours).mean(0)
        value = torch.cat([keys - 10, keys.new_zeros(1)])  # values lie in ±2: others only where candidates are too few
        value = value.scatter(0, tables[0], (cooperative - adversarial).to(value))
        order = keys.argsort(stable=True)  # equal values are common, and chosen among at random
        best = order[value[order].argsort(descending=True, stable=True)]
        return learner.replay(best[: self.replay_size])

    def write(self, learner: Learner, x: Tensor, y: Tensor, draws: Draws, done: StepResult) -> None:
        memory, size, b = learner.memory, self.memory_size, len(y)
        if "write" in draws:
            memory.write(draws["write"], x, y)
            return
        kept, keys, classes = memory.y[:size], draws["rows"], learner.possible_classes
        judges = class_table(kept, class_ranks(kept, keys[1]), 0, self.n_c, classes)
        # Candidates: n_c · C̃ random rows that do not judge.
        judging = keys.new_zeros(size + 1).scatter(0, judges, torch.ones_like(judges).to(keys))[:size]
        order = keys[2] + judging
        order, rows = order.topk(min(self.n_c * classes, size), largest=False)
        wanted = torch.arange(len(rows), device=rows.device) < self.n_c * learner.seen.sum()
        rows = torch.where(wanted & (order < 1), rows, size)

        evaluation, candidates, came = points(learner, [judges, rows], Batch(learner.normalise(x), y))
        share = (kept == y[:, None]).sum(1) / size
        minority = share < draws["threshold"] / learner.seen.sum()  # u ~ U(0, 1/C̃)
        boosted = Points(came.f, torch.where(minority, y, EMPTY))
        candidates = together(candidates, came)
        value = shapley(together(evaluation, boosted), candidates, self.neighbours).sum(0)
        lowest = torch.where(candidates.real, value, torch.inf).argsort(stable=True)[:b]

        out = torch.zeros_like(candidates.y).scatter(0, lowest, 1)
        leaving = torch.where(out[:-b] == 1, rows, size).sort().values  # their rows first, then the waste bin
        entering = out[-b:] == 0  # as many as leave
        place = (entering.cumsum(0) - 1).clamp(min=0, max=len(leaving) - 1)
        memory.write(torch.where(entering, leaving[place], size), x, y)
