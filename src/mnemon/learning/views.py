"""A second view of each image of a step, for methods that compare the samples of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mnemon.errors import MnemonError
from mnemon.learning import augmentation
from mnemon.learning.method import Batch, Draws, Method, Plan, Span, joined
from mnemon.learning.options import option

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner

# The option's help.
VIEWS = "SCR, PCR: 2 adds a randomly shifted and mirrored view of each image; SLDA: its mirror image"


@dataclass(frozen=True)
class SecondViews(Method):
    """ER; with `views` = 2 every image of B_n ∪ B_r comes a second time, shifted and mirrored at random."""

    views: int = option(1, VIEWS, least=1, most=2)

    def augmentation(self) -> str:
        return super().augmentation() if self.views == 1 else f"shift by up to {augmentation.SHIFT} pixels, mirror"

    def accept(self, shape: tuple[int, ...]) -> None:
        super().accept(shape)
        if self.views > 1 and self.augment != "none":
            raise MnemonError("a second view is shifted and mirrored already: with views=2, augment must be none.")
        if self.views > 1 and len(shape) != 3:
            raise MnemonError(f"a second view needs images (channels, height, width), not samples of shape {shape}.")

    def plan(self, span: Span) -> Plan:
        plan = super().plan(span)
        if self.views == 1:
            return plan
        n = span.batch + self.replay_size
        start = span.sample + span.step * self.replay_size  # samples that had a second view before
        u = augmentation.plan(span.seed, "views", start, span.steps, n)
        return plan | {"views": u[:, : span.batch + plan["replay"].shape[1]]}

    def retrieve(self, learner: Learner, new: Batch, draws: Draws) -> Batch | None:
        """B_r, and behind it the second views of B_n ∪ B_r."""
        replayed = super().retrieve(learner, new, draws)
        if self.views == 1:
            return replayed
        first = joined(new, replayed)
        second = Batch(augmentation.repeated_border(first.x, draws["views"]), first.y)
        return second if replayed is None else joined(replayed, second)
