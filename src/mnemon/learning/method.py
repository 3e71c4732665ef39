"""A method is a choice on five seams; this base class is experience replay (ER-reservoir), the default of each.

    retrieve    which memory rows are replayed          uniform, without replacement
    objective   the loss over new ∪ replayed samples    cross-entropy over the classes seen
    gradient    of that loss                            plain
    write       which samples enter the memory, where   reservoir
    classifier  features to scores                      softmax

A method file overrides what is different. `Learner.step` calls the seams in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.learning.memory import replay_rows, reservoir_slots
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner

Plan = dict[str, NDArray[np.int64]]  # what the host draws ahead, [steps, …] each
Draws = dict[str, Tensor]  # one step's part of it, on the device


class Batch(NamedTuple):
    """Samples on their way through a step."""

    x: Tensor  # [n, …] network input
    y: Tensor  # [n] class indices

    def __len__(self) -> int:  # the number of samples, not of fields
        return len(self.y)


class Span(NamedTuple):
    """The steps a plan is made for: `steps` batches of `batch` samples, all of the same shape."""

    seed: int
    step: int  # number of the first one, from 0
    sample: int  # samples seen before it
    steps: int
    batch: int

    def filled(self, size: int) -> NDArray[np.int64]:
        """Memory rows in use before each step [steps]."""
        return np.minimum(self.sample + np.arange(self.steps) * self.batch, size)


@dataclass(frozen=True)
class Method:
    """Experience replay; see the module's text."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `mnemon list`
    citation: ClassVar[str]
    cost: ClassVar[str]  # work per step relative to ER
    default_objective: ClassVar[str] = "ce"
    default_classifier: ClassVar[str] = "softmax"
    replays: ClassVar[bool] = True  # False: no memory at all
    epochs: ClassVar[int] = 0  # above 0: wants its samples shuffled (i.i.d.), that many times
    columns: ClassVar[tuple[str, ...]] = ()  # counters kept beside each memory row, 0 at first
    edits_memory: ClassVar[bool] = False  # True: the memory holds network inputs (floats), which the method may change
    scores: ClassVar[bool] = False  # True: scores single samples, so the loss must have a value for one

    lr: float = option(0.1, "learning rate η of plain SGD", above=0)
    batch_size: int = option(10, "new samples per step |B_n|", least=1, most=100_000)
    replay_size: int = option(10, "replayed samples per step |B_r|", least=1, most=100_000)
    memory_size: int = option(1000, "rows of the replay memory |M|", least=0, most=100_000_000)

    @classmethod
    def changes(cls) -> list[str]:
        """The seams on which the method is not ER."""
        found = [seam for seam in ("retrieve", "gradient", "write") if getattr(cls, seam) is not getattr(Method, seam)]
        if not cls.replays:
            found.append("no memory")
        if cls.default_objective != Method.default_objective:
            found.append(f"loss {cls.default_objective}")
        if cls.default_classifier != Method.default_classifier:
            found.append(f"classifier {cls.default_classifier}")
        return found

    def rows_needed(self) -> int:
        """Memory rows that must be filled before all steps have the same shape."""
        return min(self.replay_size, self.memory_size) if self.replays else 0

    def plan(self, span: Span) -> Plan:
        """The draws of some steps, made on the host ahead of time."""
        if not self.replays:
            return {}
        return {
            "replay": replay_rows(span.seed, span.step, span.filled(self.memory_size), self.replay_size),
            "write": reservoir_slots(span.seed, span.sample, span.steps, span.batch, self.memory_size),
        }

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        """B_r, before B_n enters the memory; None while there is nothing to replay."""
        if not self.replays or len(draws["replay"]) == 0:
            return None
        return learner.replay(draws["replay"])

    def gradient(self, learner: Learner, new: Batch, replayed: Batch | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The loss over B_n ∪ B_r in one forward pass (joint BatchNorm statistics), and its gradient."""
        batch = new if replayed is None else Batch(torch.cat([new.x, replayed.x]), torch.cat([new.y, replayed.y]))
        loss = learner.loss(batch, len(new))
        return loss, torch.autograd.grad(loss, learner.parameters)

    def write(self, learner: Learner, x: Tensor, y: Tensor, draws: Draws) -> None:
        """B_n enters the memory, after the step."""
        if self.replays:
            learner.memory.write(draws["write"], learner.normalise(x) if self.edits_memory else x, y)
