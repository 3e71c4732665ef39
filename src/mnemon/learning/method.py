"""The base class of all methods: experience replay (ER-reservoir).

A method overrides up to five extension points, the seams: three functions of `Method` and two names of its class.

    retrieve(…)           which memory rows are replayed          ER: uniform, without replacement
    gradient(…)           the loss over B_n ∪ B_r, its gradient   ER: plain
    write(…)              which samples enter the memory, where   ER: reservoir
    default_objective     the loss                                ER: cross-entropy over the classes seen
    default_classifier    features to scores                      ER: softmax

B_n is the batch of new samples, B_r the batch of replayed ones. `Learner.step` calls `retrieve`, `gradient` (which evaluates
the loss) and `write`; with `iterations` above 1 it repeats all but `write`. The classifier is used for prediction only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.learning.augmentation import SHIFT
from mnemon.learning.memory import EMPTY, Column, replay_rows, reservoir_slots, spread
from mnemon.learning.network import Output
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner

Plan = dict[str, NDArray[Any]]  # what the host draws ahead, [steps, …] each
Draws = dict[str, Tensor]  # one step's part of it, on the device

FORWARDS = ("joint", "separate")
AUGMENTED = ("none", "all", "replay")


class Batch(NamedTuple):
    """Samples on their way through a step."""

    x: Tensor  # [n, …] network input
    y: Tensor  # [n] class indices
    rows: Tensor | None = None  # [n] where they stand in the memory, if they come from there

    def __len__(self) -> int:  # the number of samples, not of fields
        return len(self.y)


class StepResult(NamedTuple):
    """What the step's pass over B_n ∪ B_r gave, before the parameters move. The new samples come first."""

    loss: Tensor  # a scalar
    gradient: tuple[Tensor, ...]  # one for each parameter
    out: Output
    y: Tensor  # [n] class indices


class Span(NamedTuple):
    """A block of consecutive steps that a plan is made for, and what the host knows of them; `Learner.plan` makes it."""

    seed: int
    step: int  # index of the first step, from 0
    sample: int  # samples seen before the first step
    steps: int  # number of steps
    batch: int  # samples per step
    classes: NDArray[np.int64]  # [steps, batch] class indices of the samples
    counts: NDArray[np.int64]  # [capacity] samples of each class before the first step

    def first(self, steps: int) -> Span:
        """The span of its first steps only."""
        return self._replace(steps=steps, classes=self.classes[:steps])


@dataclass(frozen=True)
class Method:
    """Experience replay; see the module's text."""

    name: ClassVar[str]
    summary: ClassVar[str] = "-"  # one line for `mnemon list`
    citation: ClassVar[str] = "-"
    cost: ClassVar[str] = "-"  # multiplications of a step, times ER's
    default_objective: ClassVar[str] = "ce"
    default_classifier: ClassVar[str] = "softmax"
    trains: ClassVar[bool] = True  # False: no gradient, hence no loss and no learning rate (`learning/streaming.py`)
    replays: ClassVar[bool] = True  # False: no memory at all
    keeps_statistics: ClassVar[bool] = False  # True: sums over all samples, which a classifier may read
    epochs: ClassVar[int] = 0  # above 0: wants its samples shuffled (i.i.d.), that many times
    memory_rule: ClassVar[str] = "reservoir"  # how the memory is chosen, for the record
    columns: ClassVar[dict[str, Column]] = {}  # kept beside each memory row
    edits_memory: ClassVar[bool] = False  # True: the memory holds network inputs (floats), which the method may change
    needs_sample_loss: ClassVar[bool] = False  # True: the loss must have a value for a single sample
    fills_first: ClassVar[bool] = False  # True: steps differ once the memory is full, which is then a phase
    row_tables: ClassVar[int] = 0  # random keys drawn per memory row and step; bounds the length of a block
    drawn_for_write: ClassVar[tuple[str, ...]] = ("write",)  # keys that further iterations do not read
    needs: ClassVar[str | None] = None  # parameters per class that the loss must train for it ("head")
    capturable: ClassVar[bool] = True  # False: its step asks the device for values, so no CUDA graph can hold it
    stackable: ClassVar[bool] = True  # False: its step holds an operation that torch.vmap cannot stretch over runs
    own_passes: ClassVar[bool] = False  # True: B_n and B_r pass in its own ways, so the option `forward` means nothing

    lr: float = option(0.1, "learning rate η of SGD", above=0)
    batch_size: int = option(10, "new samples per step |B_n|", least=1, most=100_000)
    replay_size: int = option(10, "replayed samples per step |B_r|", least=1, most=100_000)
    memory_size: int = option(1000, "rows of the replay memory |M|", least=0, most=100_000_000)
    forward: str = option(
        "joint",
        "new and replayed samples in one forward pass (joint) or in one each (separate)",
        choices=FORWARDS,
        since="0.1",
    )
    average: float | str = option(
        0.0,
        "decay d of the averaged weights that predict: the mean over about 1/(1 − d) steps; auto follows the stream, 0 is off",
        least=0,
        below=1,
        words=("auto",),
        since="0.2",
        switch=True,
    )
    sgd_momentum: float = option(
        0.0, "momentum m of SGD: v ← m·v + g, θ ← θ − η·v", least=0, below=1, since="0.2", switch=True
    )
    weight_decay: float = option(0.0, "weight decay of SGD: g ← g + w·θ", least=0, since="0.2", switch=True)
    iterations: int = option(
        1,
        "steps of SGD per batch, each with newly drawn replay samples; the memory is written once",
        least=1,
        most=1000,
        since="0.2",
    )
    augment: str = option(
        "none",
        f"images are shifted by up to {SHIFT} pixels and mirrored at random in training, whatever they show and however small "
        "they are: none, all of them, or those replayed",
        choices=AUGMENTED,
        since="0.2",
    )

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

    @classmethod
    def default_backbone(cls, shape: tuple[int, ...]) -> str | None:
        """The backbone for samples of a shape where none is named; None: the dataset's own."""
        return None

    def augmentation(self) -> str:
        """What is done to the images in training, for the record."""
        if self.augment == "none":
            return "none"
        which = "all samples" if self.augment == "all" else "replayed samples"
        return f"shift by up to {SHIFT} pixels with zeros beyond the border, mirror; {which}"

    def accept(self, shape: tuple[int, ...]) -> None:
        """Refuse samples of a shape the method cannot work with."""
        if self.augment != "none" and len(shape) != 3:
            raise MnemonError(
                f"augment={self.augment} needs images (channels, height, width), not samples of shape {shape}."
            )
        if self.augment == "replay" and not self.replays:
            raise MnemonError(f"{self.name} replays nothing that augment=replay could shift and mirror.")

    def most_replayed(self) -> int:
        """Samples a step replays, at most."""
        return self.replay_size if self.replays else 0

    def filled(self, span: Span) -> NDArray[np.int64]:
        """Memory rows in use before each step [steps]."""
        return np.minimum(span.sample + np.arange(span.steps) * span.batch, self.memory_size)

    def rows_needed(self) -> int:
        """Memory rows that must be filled before all steps have the same shape."""
        return min(self.replay_size, self.memory_size)

    def block(self, most: int) -> int:
        """Steps to plan at once: at most so many that their keys take 32 MB."""
        return max(1, min(most, 4_000_000 // max(1, self.row_tables * self.memory_size * self.iterations)))

    def phase(self, span: Span) -> NDArray[np.int64]:
        """A number for each step; steps with the same number have the same shapes and the same keys in their plan."""
        if not self.replays:
            return np.zeros(span.steps, np.int64)
        filled = self.filled(span)
        phase = np.minimum(filled, self.rows_needed())
        return np.where(filled == self.memory_size, self.memory_size + 1, phase) if self.fills_first else phase

    def plan(self, span: Span) -> Plan:
        """The draws of some steps of one phase, made on the host ahead of time."""
        if not self.replays:
            return {}
        return {"replay": self.uniform_rows(span), "write": self.reservoir(span)}

    def uniform_rows(self, span: Span, purpose: str = "replay", count: int | None = None) -> NDArray[np.int64]:
        """For each step, different rows of the memory, uniformly."""
        return replay_rows(span.seed, span.step, self.filled(span), count or self.replay_size, purpose)

    def reservoir(self, span: Span) -> NDArray[np.int64]:
        """For each sample, the row it takes."""
        return reservoir_slots(span.seed, span.sample, span.steps, span.batch, self.memory_size)

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        """B_r, before B_n enters the memory; None while there is nothing to replay."""
        if not self.replays or len(draws["replay"]) == 0:
            return None
        return learner.replay(self.chosen(learner, new, draws["replay"]))

    def retrieve_again(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        """B_r of a further iteration over B_n; other than `retrieve` where that does something which is done once a batch."""
        return self.retrieve(learner, new, draws)

    def chosen(self, learner: Learner, new: Batch, drawn: Tensor, count: int | None = None) -> Tensor:
        """Map the values drawn for a step to memory rows [count], fewer while fewer are filled. A method whose draw is not a
        list of rows overrides this."""
        return drawn

    def gradient(self, learner: Learner, new: Batch, replayed: Batch | None) -> StepResult:
        """The loss over B_n ∪ B_r and its gradient; one forward pass (joint BatchNorm statistics), or one for each."""
        return learner.loss_and_gradient(joined(new, replayed), len(new))

    def write(self, learner: Learner, x: Tensor, y: Tensor, draws: Draws, done: StepResult) -> None:
        """Write the new samples, neither normalised nor augmented, to the memory, after the step."""
        if self.replays:
            learner.memory.write(draws["write"], learner.normalise(x) if self.edits_memory else x, y)

    def refill(self, learner: Learner) -> None:
        """Fill the gaps that removed rows left with copies of the remaining ones, until new samples replace them: the plan of a
        step assumes as many rows as `filled` says."""
        rows = (learner.memory.y[: self.memory_size] != EMPTY).nonzero().flatten()
        wanted = int(self.filled(learner.here())[0])
        if wanted and not len(rows):
            raise MnemonError("no sample would be left in the memory, and there would be nothing to replay.")
        learner.memory.rearrange(spread(rows, wanted))


def joined(new: Batch, replayed: Batch | None) -> Batch:
    """B_n ∪ B_r, the new samples first."""
    if replayed is None:
        return new
    return Batch(torch.cat([new.x, replayed.x]), torch.cat([new.y, replayed.y]))


def draws_of(draws: Draws, iteration: int) -> Draws:
    """What a further iteration over a batch draws, by the names the first one has."""
    end = f"#{iteration}"
    return {key.removesuffix(end): values for key, values in draws.items() if key.endswith(end)}
