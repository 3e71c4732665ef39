"""Rows of a table as the model takes them that is to learn them, by the rules of `mnemon.readers`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mnemon.errors import MnemonError
from mnemon.estimator.cells import CATEGORY, NUMBER
from mnemon.estimator.table import Feature
from mnemon.learning.labels import Label
from mnemon.readers import cells, rows
from mnemon.readers.columns import NONE, Columns, check_label
from mnemon.readers.labels import labels

logger = logging.getLogger(__name__)
LABELS = ("label", "y", "class", "target")  # columns that are taken for the label where none is named
FIT = "`mnemon fit` makes models of tables with gaps and categories"

Sample = tuple[dict[str, Any], Any]


class Rules:
    """How the rows of one source are read. `known` are the labels of the model, to which more are only ever appended;
    `features` are those of an open table, None for a model of numbers without gaps."""

    def __init__(
        self,
        columns: Columns = NONE,
        *,
        known: Callable[[], Sequence[Label]] = tuple,
        features: Callable[[], cells.Known] | None = None,
    ) -> None:
        self.columns = columns
        self._known, self._features = known, features
        self._count, self._by_text = 0, dict[str, list[Label]]()
        self._seen: dict[str, Feature] = {}  # features that the model may not have learned yet
        self._said: set[str] = set()

    def with_label(self, names: Sequence[str], path: object) -> Columns:
        """The columns of a table that has these, with the one of the labels."""
        if self.columns.label is not None:
            check_label(self.columns, names, path)
            return self.columns
        found = next((name for name in LABELS if name in names), None)
        if found is None:
            raise MnemonError(
                f"no column is called {', '.join(LABELS[:-1])} or {LABELS[-1]}; say which one is the label: --label."
            )
        return self.columns._replace(label=found)

    def of_texts(self, row: Mapping[str, str], columns: Columns, path: object) -> Sample:
        """A row of a CSV file."""
        text = row[columns.label or ""]
        known = self._known_as(text)  # a label that is known is no missing value
        found = _split(row, columns, texts=not known)
        y = labels([text], known, numbers=True)[0]
        if self._features is None:
            return _numbers({name: None if x in columns.absent else x for name, x in found.x.items()}), y
        model = self._features()
        new = {name: feature for name, feature in self._seen.items() if name not in model or model[name].kind is None}
        read = cells.texts([found.x], columns, {**model, **new}, learning=True)
        for sentence in read.refused.values():
            raise MnemonError(f"{sentence}.")
        for sentence in read.said:
            if sentence not in self._said:
                self._said.add(sentence)
                logger.warning(f"{path}: {sentence}.")
        x = read.rows[0]
        for name, value in x.items():
            if value is not None and name not in self._seen:
                self._seen[name] = Feature(name, NUMBER if isinstance(value, float) else CATEGORY)
        return x, y

    def of_values(self, row: Mapping[str, Any], columns: Columns) -> Sample:
        """A row whose values have types."""
        if self._features is None:
            y = _split({name: row[name] for name in row if name == columns.label}, columns).y
            return _numbers({name: value for name, value in row.items() if name not in columns.others}), y
        if (sentence := rows.nested(row)) is not None:
            raise MnemonError(f"{sentence}.")
        found = _split(row, columns)
        return cells.typed([found.x], columns, self._features())[0], found.y

    def of_pair(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Features and label that come apart. What cannot be learned of the features, the model says."""
        y = _split({"y": y}, Columns(label="y")).y
        if self._features is None or not isinstance(x, dict):
            return x, y
        return cells.typed([x], self.columns, self._features())[0], y

    def _known_as(self, text: str) -> list[Label]:
        """The labels of the model that a text may stand for."""
        known = self._known()
        for label in known[self._count :]:
            self._by_text.setdefault(str(label), []).append(label)
        self._count = len(known)
        return self._by_text.get(text, [])


def _split(row: Mapping[str, Any], columns: Columns, *, texts: bool = False) -> rows.Sample:
    found = rows.sample(row, columns, labelled=True, texts=texts)
    if isinstance(found, str):
        raise MnemonError(f"{found}.")
    return found


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Features as numbers; text that is a number counts as one."""
    return {name: _number(name, value) for name, value in row.items()}


def _number(name: str, value: Any) -> float:
    if value is None or value == "":
        raise MnemonError(f"the feature {name!r} is missing, and this model has none with gaps; {FIT}.")
    try:
        found = cells.number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None:
        raise MnemonError(f"the feature {name!r} is {str(value)[:50]!r}, which is no number; {FIT}.")
    if not math.isfinite(found):
        raise MnemonError(f"the feature {name!r} is not finite.")
    return found
