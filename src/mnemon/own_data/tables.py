"""A saved model and a table for it: the columns are those it learned from, unless others are named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier
from mnemon.own_data.journal import Journal
from mnemon.own_data.readers import is_array, open_reader
from mnemon.own_data.readers.reader import Reader
from mnemon.own_data.sources import refuse_images, with_kept
from mnemon.readers.columns import SHOWN, Columns


def open_table(
    folder: Path, path: Path, given: Columns, labels: Path | None = None, *, device: str | None = None
) -> tuple[OnlineClassifier, Reader]:
    """The model in `folder`, and the reader of the table or array `path`."""
    classifier = OnlineClassifier.load(folder, device=device)
    refuse_images(classifier, folder, path)
    reader = with_kept(open_reader(path, given, labels), path, given, labels, Journal(classifier._beside))
    if classifier.features == "fixed" and not is_array(path):
        _check_columns(classifier, reader, folder)
    return classifier, reader


def _check_columns(classifier: OnlineClassifier, reader: Reader, folder: Path) -> None:
    """Refuse a table with other columns than those the features are fixed to; otherwise each of its rows would be refused."""
    features = classifier._model.names
    if features is None:
        raise MnemonError(
            f"the model {folder} learned rows of {classifier.n_features_in_:,} numbers without names, not a table with "
            f"named columns such as {reader.path}; give it an array (.npy, .npz)."
        )
    if reader.names is None:  # NDJSON: each row has its own
        return
    missing = [name for name in features if name not in reader.names]
    if missing:
        raise MnemonError(f"{reader.path} lacks columns that the model {folder} learned from: {_listed(missing)}.")
    strange = [name for name in reader.names if name not in reader.columns.others and name not in features]
    if strange:
        raise MnemonError(
            f"{reader.path} has columns that the model {folder} did not learn from: {_listed(strange)}; --label names the "
            "column of labels, and --ignore leaves columns out."
        )


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:SHOWN])) + (" …" if len(names) > SHOWN else "")
