"""Which rows of a chunk a model refuses, found with copies of it that are thrown away."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Sequence
from typing import Any

from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier
from mnemon.learning.labels import Label
from mnemon.own_data import asking
from mnemon.runtime.warn import heard


def refused(classifier: OnlineClassifier, x: Any, y: Sequence[Label], *, first: bool) -> dict[int, str]:
    """The places of rows of a chunk that was refused, and why. Without them, the chunk is learned; with `first`, the rows
    before the first one are.

    A row may be refused for itself, or only together with others: a value so large that their variance is no number.
    """
    with warnings.catch_warnings(), heard(lambda sentence: None):
        warnings.simplefilter("ignore")
        found = {} if first else _alone(classifier, x, y)
        left = [place for place in range(len(y)) if place not in found]
        while left and (why := _why(classifier, x, y, left)) is not None:
            place, why = _last_of_shortest(classifier, x, y, left, why)
            alone = _why(classifier, x, y, [place]) == why
            found[place] = why if alone else f"together with the rows before it, {why}"
            if first:
                break
            left.remove(place)
    return found


def _alone(classifier: OnlineClassifier, x: Any, y: Sequence[Label]) -> dict[int, str]:
    """One row after the other: the quick way where there are many."""
    found: dict[int, str] = {}
    trial = copy.deepcopy(classifier)
    for place in range(len(y)):
        try:
            asking.learn(trial, x[place : place + 1], list(y[place : place + 1]))
        except MnemonError as error:
            found[place] = _said(error)
    return found


def _last_of_shortest(
    classifier: OnlineClassifier, x: Any, y: Sequence[Label], places: list[int], why: str
) -> tuple[int, str]:
    """Halve the rows until those before one are learned, and with it they are not."""
    fine, bad = 0, len(places)
    while bad - fine > 1:
        middle = (fine + bad) // 2
        said = _why(classifier, x, y, places[:middle])
        if said is None:
            fine = middle
        else:
            bad, why = middle, said
    return places[bad - 1], why


def _why(classifier: OnlineClassifier, x: Any, y: Sequence[Label], places: list[int]) -> str | None:
    """What a model says of these rows, as one chunk; None if it learns them."""
    try:
        asking.learn(copy.deepcopy(classifier), asking.part(x, places), [y[place] for place in places])
    except MnemonError as error:
        return _said(error)
    return None


def _said(error: MnemonError) -> str:
    """Its sentence; the row is named by its line, so its place in the chunk says nothing."""
    return re.sub(r" in sample \d+", "", str(error))
