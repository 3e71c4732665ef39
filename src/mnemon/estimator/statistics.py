"""A learner of statistics for streams that were not prepared: what the estimator reads of any learner, where there is none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mnemon.learning.streaming import StreamingLearner


class OnlineStatistics(StreamingLearner):
    """Its features are not scaled as they come: what was learned before would then be of other features. And it has no
    weights to average."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.scaling = None
        self.average: dict[str, Tensor] = {}
        self.age = torch.zeros((), dtype=torch.int64, device=self.device)
