"""A learner of statistics for streams that were not prepared: what the estimator reads of any learner, where there is none."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from mnemon.learning.streaming import StreamingLearner


class OnlineStatistics(StreamingLearner):
    """Its features are not scaled as they come: what was learned before would then be of other features."""

    def __init__(self, *args: Any, half_life: float | None = None, **named: Any) -> None:
        super().__init__(*args, **named)
        self.scaling = None
        self.half_life = None if half_life is None else half_life * self.views

    def discount(self, c: int) -> None:
        """A class has drifted: what was learned of it counts as one sample from now on."""
        if self.statistics is not None:
            self.statistics.discount(c, self.views)

    def over_all(self) -> tuple[Tensor, Tensor] | None:
        """Mean and variance of each feature, where samples are features."""
        flat = isinstance(self.net.backbone, nn.Flatten) and self.statistics is not None
        return self._statistics().over_all() if flat else None
