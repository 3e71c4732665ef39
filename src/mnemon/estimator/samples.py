"""X of any kind as the samples a model takes: arrays, frames, dicts, and what an embedding function makes vectors of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from textwrap import shorten
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from mnemon.data import arrays
from mnemon.data.layout import unmark
from mnemon.errors import MnemonError
from mnemon.estimator import cells, rows, values
from mnemon.estimator.embedding import Embedding, network
from mnemon.estimator.model import Model
from mnemon.estimator.table import Growth, Table, tensor

TEXTS = (
    "X is a list of texts, and features are numbers; a function can make vectors of them: "
    "OnlineClassifier(backbone=mnemon.Embedding(function))."
)
DICTS = (
    "X is a list of dicts, which learn_many, predict_many and predict_proba_many take; everything takes them with "
    "OnlineClassifier(features='open')."
)
LONGEST = 380  # characters of a sentence of scikit-learn's, which may quote a cell of any size


class WrongType(MnemonError, TypeError):
    """X holds something that is no number, which scikit-learn calls a TypeError."""


class SampleReader:
    """The part of an OnlineClassifier that reads X; scikit-learn notes on it how many features there are, and their names."""

    backbone: Any
    _given: dict[str, Any]

    def _samples(self, X: Any, model: Model | None, *, learned: bool = False) -> Tensor:
        """X as the learner holds it; of the kind that was learned before, where something was."""
        embedding = self._embedding(model)
        X, last = unmark(X if embedding is None else embedding(X))
        X = arrays.on_host(arrays.drained(X))
        _check_dense(X)
        with _in_one_sentence():
            if arrays.is_frame(X):
                arrays.check_columns(X, "X")
                if len(set(X.columns)) == len(X.columns):  # else scikit-learn says it
                    rows.check_numbers(X)
                if hasattr(X, "sparse"):  # all columns are; scikit-learn fills them only if one is not
                    X = X.sparse.to_dense()
            else:
                X = arrays.array(X, "X")
                if X.ndim == 1 and X.size and isinstance(X[0], str):
                    raise MnemonError(TEXTS)
                if X.ndim == 1 and X.size and isinstance(X[0], dict):
                    raise MnemonError(DICTS)
                values.check_dimensions(X)  # scikit-learn's own sentences hold the whole array
                arrays.check_numbers(X, "X")
            if self._is_plain(X, model):
                a = X
            elif np.ndim(X) > 2:
                a = check_array(X, allow_nd=True, ensure_all_finite=False, input_name="X")
            else:
                a = validate_data(self, X, reset=model is None, ensure_all_finite=False)
            if a.dtype.kind == "O":  # categories, which scikit-learn leaves as they are
                a = a.astype(np.float64)
        x = values.tensor(a, last=last, learned=None if model is None else model.inputs.shape)
        if learned:
            values.warn_of_lost_digits(a, x, getattr(self, "feature_names_in_", None))
        if model is None:
            return x
        shape, dtype, *_ = model.inputs
        if tuple(x.shape[1:]) != shape or x.dtype != dtype:
            one = np.ndim(X) == 3 and 1 < shape[0] in (np.shape(X)[0], np.shape(X)[-1])
            raise MnemonError(
                f"X holds samples of {values.kind(tuple(x.shape[1:]), x.dtype)}, but those learned before were of "
                f"{values.kind(shape, dtype)}.{' One image is X[None].' * one}"
            )
        return x

    def _is_plain(self, X: Any, model: Model | None) -> bool:
        """Whether X is an array in which scikit-learn would find nothing to say and nothing to change."""
        return (
            model is not None
            and type(X) is np.ndarray
            and X.dtype.kind in "biuf"
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == getattr(self, "n_features_in_", None)
            and "feature_names_in_" not in vars(self)  # else it warns that X has no names
        )

    def _embedding(self, model: Model | None) -> Embedding | None:
        """What makes vectors of X, where that is not done yet."""
        given = self.backbone if model is None else self._given["backbone"]
        network(given)  # a model with encode is refused before X is looked at
        return given if isinstance(given, Embedding) else None

    def _columns(self, X: Any, table: Table | None) -> cells.Columns:
        """X by its features."""
        _check_dense(X)
        X = cells.listed(X)
        if isinstance(X, np.ndarray):
            with _in_one_sentence():
                values.check_dimensions(X)
                if X.dtype.kind == "c":  # scikit-learn's sentence holds the whole array
                    arrays.check_real(X, "X")
                if X.ndim > 2:
                    raise MnemonError(f"features='open' is for tables, and X has the shape {X.shape}.")
                X = validate_data(self, X, reset=table is None, dtype=None, ensure_all_finite=False)
        return cells.read(X, (table or Table()).named(X.shape[1] if isinstance(X, np.ndarray) else 0))

    def _grown(self, X: Any, table: Table | None) -> Growth:
        """X as the learner is to hold it, with the columns that it adds to the table."""
        X = arrays.drained(X)
        cells.warn_of_numbers_as_text(X)
        growth = (table or Table()).learn(self._columns(X, table))
        values.warn_of_lost_digits(growth.x, growth.tensor(), growth.table.column_names())
        return growth

    def _read(self, X: Any, model: Model, table: Table | None, *, named: bool = False, learned: bool = False) -> Tensor:
        """Samples to be predicted, or taken back (`learned`). `named`: a frame whose columns come in any order, or dicts."""
        if table is not None:
            return tensor(table.encode(self._columns(X, table), learned=learned))
        if named and self._embedding(model) is None:
            return rows.tensor(X, model.names, model.inputs)
        return self._samples(X, model)


def _check_dense(X: Any) -> None:
    if hasattr(X, "toarray"):
        raise WrongType("X is sparse, and only dense arrays are read; X.toarray() makes one.")


@contextlib.contextmanager
def _in_one_sentence() -> Iterator[None]:
    """What scikit-learn says of X within, as an error of ours."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if isinstance(error, MnemonError):
            raise
        said = shorten(str(error), LONGEST, placeholder=" …")
        said += "" if said.endswith((".", "…")) else "."
        if said.startswith("could not convert string"):  # of an array of objects
            said = f"X holds text: {said} {rows.OPEN}"
        raise (
            WrongType(f"X holds what is no number: {said}") if isinstance(error, TypeError) else MnemonError(said)
        ) from None
