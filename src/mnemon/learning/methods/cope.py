"""CoPE: every class has a prototype that evolves with it; replay and memory give all classes the same share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.learning.memory import EMPTY, Column, balanced_order, class_ranks, row_keys, spread, write_keys
from mnemon.learning.method import Batch, Draws, Method, Plan, Span, StepResult
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner


@dataclass(frozen=True)
class CoPE(Method):
    """Replayed rows are of classes drawn uniformly; the loss and the prototypes are `objectives.CoPELoss`; the memory holds
    a random sample of each class seen, M/C̃ rows each. A class's sample is that of the smallest random keys, so a smaller
    quota keeps a random part of it, and a new sample enters with the probability a reservoir would give it."""

    name: ClassVar[str] = "cope"
    summary: ClassVar[str] = "prototypes that follow their classes, class-balanced replay and memory"
    citation: ClassVar[str] = "De Lange and Tuytelaars 2021, Continual Prototype Evolution"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "cope"
    default_classifier: ClassVar[str] = "prototype"
    row_tables: ClassVar[int] = 2
    memory_rule: ClassVar[str] = "class-balanced"
    columns: ClassVar[dict[str, Column]] = {"key": Column(1.0)}

    lr: float = option(0.01, "learning rate η of plain SGD", above=0)

    def filled(self, span: Span) -> NDArray[np.int64]:
        """From the labels alone: each class fills its quota."""
        one_hot = span.classes[:, :, None] == np.arange(len(span.counts))  # [steps, batch, capacity]
        counts = span.counts + one_hot.sum(1).cumsum(0) - one_hot.sum(1)  # samples of each class before each step
        return np.asarray(self.class_rows(counts).sum(-1))

    def class_rows(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Memory rows of each class after so many samples of each [..., capacity]."""
        return np.asarray(np.minimum(counts, quotas(counts > 0, self.memory_size)))

    def plan(self, span: Span) -> Plan:
        count = int(self.phase(span)[0])
        return {
            "replay": np.tile(np.arange(count), (span.steps, 1)),  # the first rows of a class-balanced order
            "rows": row_keys(span.seed, span.step, span.steps, self.row_tables, self.memory_size),
            "write": write_keys(span.seed, span.sample, span.steps, span.batch),
        }

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        if len(draws["replay"]) == 0:
            return None
        order = balanced_order(learner.memory.y[: self.memory_size], draws["rows"])
        return learner.replay(order[draws["replay"]])

    def write(self, learner: Learner, x: Tensor, y: Tensor, draws: Draws, done: StepResult) -> None:
        memory, size = learner.memory, self.memory_size
        key = memory.extra["key"]
        keys = torch.cat([key[:size], draws["write"].to(key)])  # [M + b]
        classes = torch.cat([memory.y[:size], y])
        kept = (classes != EMPTY) & (class_ranks(classes, keys) < quotas(learner.seen, size)[classes])
        memory.y[:size].masked_fill_(~kept[:size], EMPTY)
        free = (~kept[:size]).to(torch.int8).argsort(descending=True, stable=True)  # free rows first
        entering = kept[size:]  # at most as many as rows are free
        slots = torch.where(entering, free[(entering.cumsum(0) - 1).clamp(min=0)], size)
        memory.write(slots, x, y, key=keys[size:])

    def refill(self, learner: Learner) -> None:
        """Each class has the rows it is counted with: those of the smallest keys, or copies."""
        memory, rows = learner.memory, []
        by_key = memory.extra["key"][: self.memory_size].argsort(stable=True)
        for c, wanted in enumerate(self.class_rows(learner.counts.numpy()).tolist()):
            own = by_key[memory.y[by_key] == c]
            if wanted and not len(own):
                raise MnemonError(
                    "a class would have no sample left in the memory, which holds some of each class; forget(label=...) takes "
                    "back the whole class."
                )
            rows.append(spread(own, wanted))
        memory.rearrange(torch.cat(rows))


def quotas(seen: Any, size: int) -> Any:
    """Rows for each class: size / C̃, and one more for the first ones where that does not come out even.

    seen: bool [capacity], or [steps, capacity], on the host (an array) or on the device (a tensor).
    """
    classes = seen.sum(-1, keepdims=True)
    classes = classes + (classes == 0)
    return seen * (size // classes + (seen.cumsum(-1) <= size % classes))
