"""Samples whose features have names, as River has them: dicts, or a frame whose columns may come in any order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

import numpy as np
from torch import Tensor

from mnemon.data import arrays
from mnemon.errors import MnemonError
from mnemon.estimator import values
from mnemon.learning.learner import Inputs

OPEN = "(OnlineClassifier(features='open') takes missing values, categories and features that come later.)"


class NoNumber(MnemonError, TypeError):
    """X holds something that is no number, which scikit-learn calls a TypeError."""


def listed(X: Any) -> Any:
    """A frame as it is, anything else as a list of its samples; an iterator is read to its end."""
    X = arrays.drained(X)
    if arrays.is_frame(X):
        return X
    sparse = hasattr(X, "toarray")  # an Iterable, but of no rows in some formats and versions of scipy
    if isinstance(X, Mapping) or sparse or not isinstance(X, Iterable):
        raise MnemonError(f"samples come as a frame or a list of dicts, not as {type(X).__name__}.")
    return list(X)


def names(X: Any) -> list[str | int]:
    """The features of the first sample ever; those of all others must be the same."""
    if arrays.is_frame(X):
        return plain(X.columns)
    if not X:
        raise MnemonError("there must be at least one sample.")
    if not isinstance(X[0], Mapping):
        raise MnemonError(f"a sample is a dict of features, not {type(X[0]).__name__}.")
    return plain(X[0])


def plain(names: Iterable[Any]) -> list[str | int]:
    """Names as they can be saved, those of NumPy's types as the str and int they equal."""
    found = [name.item() if isinstance(name, np.generic) else name for name in names]
    for name in found:
        if type(name) not in (str, int):
            raise MnemonError(f"a feature is named by a str or an int, not by {name!r} ({type(name).__name__}).")
    return found


def check_once(names: list[Any]) -> None:
    """Refuse columns of one name: a feature is known by it."""
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise MnemonError(f"two columns of X are called {twice!r}; rename one of them.")


def index(X: Any) -> Any:
    """What a frame calls its rows; 0, 1, … otherwise."""
    return getattr(X, "index", range(len(X))) if arrays.is_frame(X) else range(len(X))


def tensor(X: Any, names: list[Any] | None, inputs: Inputs | None, *, learned: bool = False) -> Tensor:
    """Samples [n, features] in the order of `names`. A model that learned from arrays calls its features 0, 1, …"""
    if names is None:
        assert inputs is not None, "a model without names was made from an array"
        if len(inputs.shape) != 1:
            raise MnemonError("this model learned from images, not from features with names.")
        names = list(range(inputs.shape[0]))
    known = frozenset(names)
    if arrays.is_frame(X):
        _check(X.columns, names, known)
        arrays.check_columns(X, "X")
        check_numbers(X)
        table = X[names].to_numpy()
    else:
        for x in X:
            if not isinstance(x, Mapping):
                raise MnemonError(f"a sample is a dict of features, not {type(x).__name__}.")
            _check(x, names, known)
            for name, value in x.items():
                if arrays.is_date(value):
                    arrays.refuse_dates(f"the feature {name!r}")
                if value is None:
                    raise MnemonError(f"the feature {name!r} is None, a missing value. {OPEN}")
        table = [[x[name] for name in names] for x in X]
    try:
        a = np.asarray(table, np.float64)
    except (ValueError, TypeError) as error:
        raise MnemonError(f"a feature is not a number: {error}. {OPEN}") from None
    if a.size == 0:
        raise MnemonError("there must be at least one sample with at least one feature.")
    x = values.tensor(a)
    if learned:
        values.warn_of_lost_digits(a, x, names)
    return x


def check_numbers(frame: Any) -> None:
    """Refuse a column that holds no numbers, or not in every sample, and name it."""
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        try:
            values = np.asarray(frame[name], np.float64)
        except (ValueError, TypeError) as error:
            kind = NoNumber if isinstance(error, TypeError) else MnemonError
            raise kind(f"the column {name!r} of X holds something that is no number: {error}. {OPEN}") from None
        if getattr(dtype, "kind", "O") not in "biu" and np.isnan(values).any():
            raise MnemonError(
                f"the column {name!r} of X has a missing value (NaN, so it is not finite) in sample "
                f"{int(np.isnan(values).argmax())}; fill it first. {OPEN}"
            )


def _check(found: Collection[Any], names: list[Any], known: Set[Any]) -> None:
    """Refuse other features than `names`, of which `known` is the set; in time linear in their number."""
    mine = set(found)
    if mine != known:
        missing = next((name for name in names if name not in mine), None)
        if missing is not None:
            raise MnemonError(
                f"the feature {missing!r} is missing; each sample has the features of the first one. {OPEN}"
            )
        strange = next(name for name in found if name not in known)
        raise MnemonError(
            f"the feature {strange!r} was not in the first sample; each one has the same features. {OPEN}"
        )
    check_once(list(found))
