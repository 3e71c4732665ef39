"""The estimator's warnings as messages of a server: one line for each model and kind of warning, not one for each chunk. Drift
is told each time, since each is another event."""

from __future__ import annotations

import logging
import re

from mnemon.estimator import drift
from mnemon.serve.log import Log

logger = logging.getLogger(__name__)


class WarnOnce:
    """A listener for `mnemon.runtime.warn.heard`. Sentences that differ in their numbers alone are of one kind."""

    def __init__(self, model: str, log: Log) -> None:
        self._model, self._log = model, log
        self._said: set[str] = set()

    def __call__(self, sentence: str) -> None:
        kind = sentence if sentence.startswith(drift.WORD) else re.sub(r"\d[\d,.]*", "0", sentence)
        if kind not in self._said:
            self._said.add(kind)
            self._log.add("warned", reason=sentence)
            logger.warning(f"{self._model}: {sentence}")
