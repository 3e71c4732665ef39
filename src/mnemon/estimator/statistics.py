"""A learner of statistics for streams that were not prepared: what the estimator reads of any learner, where there is none."""

from __future__ import annotations

from typing import Any

from mnemon.learning.streaming import StreamingLearner


class OnlineStatistics(StreamingLearner):
    """Its features are not scaled as they come: what was learned before would then be of other features."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.scaling = None
