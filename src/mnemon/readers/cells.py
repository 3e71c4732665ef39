"""Cells as values: what the texts of a CSV file are, and categories as the model knows them.

Of a feature that the model knows, the model says what it is. Of another one all cells of the chunk decide, not the first one:
numbers, categories, or numbers with texts among them that are refused. Rows may come one by one; a chunk is then one row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mnemon.estimator import OnlineClassifier
from mnemon.estimator.cells import CATEGORY, NUMBER
from mnemon.estimator.table import Feature
from mnemon.readers.columns import Columns
from mnemon.readers.rows import Row

DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d.*)?")
WRITTEN_NUMBER = re.compile(r"[€$£]? ?[+-]?\d+([.,]\d+)* ?[%€$£]?")

Known = Mapping[Any, Feature]


class Read(NamedTuple):
    """Rows as values; the places of those that are none, with why; and what is to be said of the columns."""

    rows: list[Row]
    refused: dict[int, str]
    said: list[str]


def features(classifier: OnlineClassifier) -> dict[Any, Feature]:
    """The features that a model of an open table knows."""
    table = classifier._model.table if classifier.__sklearn_is_fitted__() else None
    return {} if table is None else {feature.name: feature for feature in table.features}


def number(text: str) -> float | None:
    """The number that a text spells; None if it is none."""
    try:
        return None if "_" in text else float(text)  # Python reads 1_000 as a number, and nobody else does
    except ValueError:
        return None


def texts(rows: Sequence[Mapping[str, str]], columns: Columns, known: Known, *, learning: bool) -> Read:
    """The features of rows of a CSV file, which all have the same names."""
    names = list(rows[0]) if rows else []
    if not names:
        return Read([{} for _ in rows], {}, [])
    found: list[list[Any]] = []  # by column
    refused: dict[int, str] = {}
    said: list[str] = []
    for name in names:
        cells = [row[name] for row in rows]
        feature = known.get(name, Feature(name))
        if feature.kind != CATEGORY and name not in columns.category and (plain := _plain(cells, columns)) is not None:
            found.append(plain)
            continue
        given = [None if cell in columns.absent else cell for cell in cells]
        if name in columns.category:
            values: list[Any] = list(map(_as_known(feature), given))
        elif feature.kind is None and not learning:  # an open model leaves it out
            values = [cell if cell is None or (n := number(cell)) is None else n for cell in given]
        else:
            values = _column(name, given, feature, refused)
            if feature.kind is None and (sentence := _doubtful(name, values)):
                said.append(sentence)
        found.append(values)
    return Read([dict(zip(names, values, strict=True)) for values in zip(*found, strict=True)], refused, said)


def typed(rows: Sequence[Row], columns: Columns, known: Known) -> list[Row]:
    """Rows whose values have types: categories are those the model knows, and columns of categories have no numbers."""
    by_name = {name: _as_known(feature) for name, feature in known.items() if feature.kind == CATEGORY}
    for name in columns.category:
        by_name[name] = _as_text(by_name.get(name, _as_it_is))
    if not by_name:
        return list(rows)
    return [{name: by_name.get(name, _as_it_is)(value) for name, value in row.items()} for row in rows]


def _plain(cells: list[str], columns: Columns) -> list[Any] | None:
    """A column of numbers without gaps, which most are; None for any other."""
    if not columns.absent.isdisjoint(cells) or "_" in "".join(cells):
        return None
    try:
        return list(map(float, cells))
    except ValueError:
        return None


def _column(name: str, given: list[str | None], feature: Feature, refused: dict[int, str]) -> list[Any]:
    """The values of one feature. A text among numbers and a decimal number among categories are refused."""
    numbers = [None if text is None else number(text) for text in given]
    text = next((text for text, n in zip(given, numbers, strict=True) if text is not None and n is None), None)
    if (feature.kind or _kind(given, numbers)) == NUMBER:
        for place, (cell, n) in enumerate(zip(given, numbers, strict=True)):
            if cell is not None and n is None:
                refused.setdefault(
                    place,
                    f"{name!r} holds numbers, and this is the text {cell!r:.60}; if it stands for a missing value: --missing "
                    f"{cell!r:.60}; if the column holds categories: --category {name}, for a new model",
                )
        return numbers
    as_known = _as_known(feature)
    values = list(map(as_known, given))
    first = next((category for _, category in feature.categories), text)
    for place, (value, n) in enumerate(zip(values, numbers, strict=True)):
        if n is not None and n == n and not n.is_integer() and (type(value), value) not in feature.categories:
            refused.setdefault(
                place,
                f"{name!r} holds categories, because the first value learned was {first!r:.60}, and this is the number {n!r}; "
                f"if {first!r:.60} stands for a missing value, make a new model with --missing, and if numbers are categories: "
                f"--category {name}",
            )
    return values


def _kind(given: list[str | None], numbers: list[float | None]) -> str:
    """What a new feature is. Texts among numbers are the odd ones if a number is a decimal or at most half are texts."""
    found = [n for n in numbers if n is not None]
    values = sum(text is not None for text in given)
    decimal = any(not n.is_integer() for n in found)
    return NUMBER if decimal or 2 * len(found) >= values else CATEGORY


def _doubtful(name: str, values: list[Any]) -> str | None:
    """What is likely a mistake in a new column of categories."""
    found = [value for value in values if value is not None]
    if not found or not all(isinstance(value, str) for value in found):
        return None
    if all(map(DATE.fullmatch, found)):
        return f"{name!r} holds dates, and each is a category of its own; leave it out: --ignore {name}"
    if all(map(WRITTEN_NUMBER.fullmatch, found)):
        return (
            f"{name!r} holds numbers with a comma or a unit, such as {found[0]!r:.20}, and each is a category of its "
            "own; write plain numbers, such as 1234.5"
        )
    return None


def _as_known(feature: Feature) -> Callable[[Any], Any]:
    """A value as the category that the model knows: a text may stand for a bool or an int, and either for its text."""
    categories = feature.categories
    by_text: dict[str, Any] = {}
    for _, category in categories:
        if isinstance(category, bool):
            by_text |= dict.fromkeys((str(category), str(category).lower(), str(category).upper()), category)
    by_text |= {category: category for _, category in categories if isinstance(category, str)}
    if not categories:
        return _as_it_is

    def found(value: Any) -> Any:
        if value is None or (type(value), value) in categories:
            return value
        whole = number(value) if isinstance(value, str) else value if type(value) in (int, float) else None
        if whole is not None and whole == whole and abs(whole) < 2**63 and whole == int(whole):
            if (int, int(whole)) in categories:
                return int(whole)
            return by_text.get(value if isinstance(value, str) else str(int(whole)), value)
        return by_text.get(str(value), value)

    return found


def _as_text(then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def found(value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        missing = value is None or value != value
        return None if missing else then(str(value) if type(value) in (int, float) else value)

    return found


def _as_it_is(value: Any) -> Any:
    return value
