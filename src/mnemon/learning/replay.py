"""Which classes are replayed: all of them, or others than those of the new samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mnemon import rng
from mnemon.learning.memory import EMPTY
from mnemon.learning.method import Batch, Method, Span
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner

ALL, OTHERS = "all", "others"


@dataclass(frozen=True)
class UniformReplay(Method):
    """ER's uniform draw of memory rows, from all of them or from those of other classes than B_n's.

    The second needs no knowledge of tasks. The reference code of MIR and GMED replays no sample of the current task, for which
    it stands in. Where fewer such rows are in the memory than are replayed, as in the first task, rows of B_n's classes follow.
    """

    replay_classes: str = option(
        ALL,
        "classes that are replayed: all, or others than those of the new samples (theirs too where there are too few)",
        choices=(ALL, OTHERS),
        since="0.2",
    )

    def block(self, most: int) -> int:
        drawn = self.memory_size * self.iterations if self.replay_classes == OTHERS else 1
        return max(1, min(super().block(most), 4_000_000 // max(1, drawn)))

    def uniform_rows(self, span: Span, purpose: str = "replay", count: int | None = None) -> NDArray[Any]:
        """For each step different rows [steps, count]; or a number in [0, 1) for each row, of which `chosen` takes the least:
        which classes the rows are of is known on the device alone."""
        if self.replay_classes == ALL:
            return super().uniform_rows(span, purpose, count)
        filled = int(self.filled(span)[0])
        rows = filled if filled < self.rows_needed() else self.memory_size  # the same for all steps of a phase
        u = rng.uniform(span.seed, purpose, span.step * self.memory_size, span.steps * self.memory_size)
        return np.ascontiguousarray(u.reshape(span.steps, self.memory_size)[:, :rows])

    def chosen(self, learner: Learner, new: Batch, drawn: Tensor, count: int | None = None) -> Tensor:
        if self.replay_classes == ALL:
            return drawn
        y = learner.memory.y[: len(drawn)]
        own = (y[:, None] == new.y).any(1)
        keys = drawn + own + 2 * (y == EMPTY)  # rows of other classes, then those of B_n's, then free ones
        return keys.topk(min(count or self.replay_size, len(drawn)), largest=False).indices
