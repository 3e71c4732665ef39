"""A classifier turns features into a score for each class. The highest score is the prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mnemon.learning.named import Named
from mnemon.learning.network import Output

if TYPE_CHECKING:
    from mnemon.learning.learner import Learner

Scores = Callable[[Output], Tensor]  # one pass's output -> [n, capacity], −inf for classes that cannot be predicted


@dataclass(frozen=True)
class Classifier(Named):
    """One file in classifiers/ each; options are fields."""

    # What must be there: the method's "memory" or "statistics", class rows of the loss ("head", "proxies", "prototypes").
    needs: ClassVar[tuple[str, ...]] = ()
    twice_log_density: ClassVar[bool] = False  # True: half a score is a log-density; False: scores are logits

    def prepare(self, learner: Learner) -> Scores:
        """Do once per evaluation what can be done once, and return the function that scores."""
        raise TypeError(f"the classifier {self.name} does not say how it scores.")

    def left_out(self, learner: Learner) -> tuple[Tensor, Tensor] | None:
        """Scores [n, capacity] of the memory's rows, each as if it were not in the memory, and their classes [n]; None where
        that is not known."""
        return None
