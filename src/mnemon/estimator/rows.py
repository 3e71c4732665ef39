"""Samples whose features have names, as River has them: dicts, or a frame whose columns may come in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.estimator import values
from mnemon.learning.learner import Inputs


def names(X: Any) -> list[Any]:
    """The features of the first sample ever; those of all others must be the same."""
    if values.is_frame(X):
        return list(X.columns)
    if not isinstance(X[0], Mapping):
        raise MnemonError(f"a sample is a dict of features, not {type(X[0]).__name__}.")
    return list(X[0])


def tensor(X: Any, names: list[Any] | None, inputs: Inputs | None) -> Tensor:
    """Samples [n, features] in the order of `names`. A model that learned from arrays calls its features 0, 1, …"""
    if names is None:
        assert inputs is not None, "a model without names was made from an array"
        if len(inputs.shape) != 1:
            raise MnemonError("this model learned from images, not from features with names.")
        names = list(range(inputs.shape[0]))
    if values.is_frame(X):
        _check(list(X.columns), names)
        table = X[names].to_numpy()
    else:
        for x in X:
            if not isinstance(x, Mapping):
                raise MnemonError(f"a sample is a dict of features, not {type(x).__name__}.")
            _check(list(x), names)
        table = [[x[name] for name in names] for x in X]
    try:
        a = np.asarray(table, np.float64)
    except (ValueError, TypeError) as error:
        raise MnemonError(f"a feature is not a number: {error}.") from None
    if a.size == 0:
        raise MnemonError("there must be at least one sample with at least one feature.")
    return values.tensor(a)


def _check(found: list[Any], names: list[Any]) -> None:
    missing = [name for name in names if name not in found]
    strange = [name for name in found if name not in names]
    if missing:
        raise MnemonError(f"the feature {missing[0]!r} is missing; each sample has the features of the first one.")
    if strange:
        raise MnemonError(f"the feature {strange[0]!r} was not in the first sample; each one has the same features.")
