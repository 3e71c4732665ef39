"""A saved model and a table for it: the columns are those it learned from, unless others are named."""

from __future__ import annotations

from pathlib import Path

from mnemon.estimator import OnlineClassifier
from mnemon.own_data.journal import Journal
from mnemon.own_data.readers import open_reader
from mnemon.own_data.readers.reader import Reader
from mnemon.own_data.sources import refuse_images, with_kept
from mnemon.readers.columns import Columns


def open_table(
    folder: Path, path: Path, given: Columns, labels: Path | None = None, *, device: str | None = None
) -> tuple[OnlineClassifier, Reader]:
    """The model in `folder`, and the reader of the table or array `path`."""
    classifier = OnlineClassifier.load(folder, device=device)
    refuse_images(classifier, folder, path)
    reader = open_reader(path, given, labels)
    return classifier, with_kept(reader, path, given, labels, Journal(classifier._beside))
