"""The rows of a chunk as the values that a model takes, by the rules of `mnemon.readers`."""

from __future__ import annotations

import logging
from dataclasses import replace

from mnemon.estimator import OnlineClassifier
from mnemon.own_data.readers.reader import Chunk, Reader
from mnemon.readers import cells

logger = logging.getLogger(__name__)


def read(chunk: Chunk, reader: Reader, classifier: OnlineClassifier, *, learning: bool) -> tuple[Chunk, dict[int, str]]:
    """The chunk with values, and which of its rows cannot be learned or predicted, and why. An array is as it is."""
    if not isinstance(chunk.x, list):
        return chunk, {}
    known = cells.features(classifier)
    if reader.typed:
        return replace(chunk, x=cells.typed(chunk.x, reader.columns, known)), {}
    found = cells.texts(chunk.x, reader.columns, known, learning=learning)
    for sentence in found.said:
        logger.warning(f"{reader.path}: {sentence}.")
    return replace(chunk, x=found.rows), found.refused
