"""The schema of a table as it grew: which columns of the learner's input stand for which feature.

    a number      one column, and once a value is missing another one that is 1 where it is; the first one then has `fill`
    a category    a column for each category, 1 where the sample has it, and once a value is missing one for that
    a later one   its columns come behind those there are; in all samples before it was missing

Columns are only ever appended, those of one chunk by name, and what samples learned before have in a new one is known: 0,
`fill` or 1. So a learner can be widened as if the column had been there from the start, and a sample is encoded today as it
was when it was learned. That is why `fill` is the mean of the first chunk that has values and never moves. A table is
immutable; learning makes another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.estimator import cells
from mnemon.estimator.cells import CATEGORY, NUMBER, Category, Column, Columns, Name
from mnemon.runtime.warn import warn

MOST_COLUMNS = 10_000
MOST_CATEGORIES = 100  # of one feature; further ones share a column
FLOAT32 = float(np.finfo(np.float32).max)
NONE = -1  # there is no such column

Key = tuple[type, Category]  # True and 1 are different categories


@dataclass(frozen=True)
class Feature:
    """The columns of one feature; it has none before its first value, which decides its kind."""

    name: Name
    kind: str | None = None
    fill: float = 0.0  # a number: what stands in its column where it is missing
    value: int = NONE  # a number: its column
    missing: int = NONE  # 1 where the value is missing
    other: int = NONE  # 1 for each category beyond the first MOST_CATEGORIES
    categories: dict[Key, int] = field(default_factory=dict)  # their columns

    def columns(self) -> Iterator[int]:
        yield from (column for column in (self.value, self.missing, self.other) if column != NONE)
        yield from self.categories.values()

    def column(self, category: Category) -> int:
        """Where a category is 1; NONE for one that was never learned."""
        return self.categories.get((type(category), category), self.other)


class Growth(NamedTuple):
    """A chunk as the learner takes it, the table it made, and what the columns that are new hold in all samples before."""

    table: Table
    x: NDArray[np.float64]  # [n, width]
    past: list[float]

    def tensor(self) -> Tensor:
        return tensor(self.x)


def tensor(x: NDArray[np.float64]) -> Tensor:
    """Encoded samples as the learner holds them."""
    return torch.from_numpy(x.astype(np.float32))


@dataclass(frozen=True)
class Table:
    features: tuple[Feature, ...] = ()
    # For predictions: gives the mean of each column over all that was learned, or None where that is not known.
    means: Callable[[], NDArray[np.float64] | None] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def width(self) -> int:
        return sum(1 for feature in self.features for _ in feature.columns())

    @property
    def names(self) -> list[Name]:
        """All features that were ever named, in the order in which they came."""
        return [feature.name for feature in self.features]

    def named(self, width: int) -> Sequence[Name]:
        """What the features of an array are called."""
        return self.names if self.features else range(width)

    def column_names(self) -> list[Name]:
        """The feature of each column."""
        found: list[Name] = [0] * self.width
        for feature in self.features:
            for column in feature.columns():
                found[column] = feature.name
        return found

    # --- samples

    def encode(self, chunk: Columns, *, learned: bool = False) -> NDArray[np.float64]:
        """Samples [n, width]. A feature that was never learned is left out. What a feature never was before, missing or of this
        category, has the mean of what was learned in its columns, which tells nothing. `learned`: all of these are refused,
        since such a sample cannot have been learned."""
        if chunk.samples == 0:
            raise MnemonError("there must be at least one sample.")
        x = np.zeros((chunk.samples, self.width))
        if not learned and chunk.samples > 1:
            self._warn_of_other_names(chunk)
        for feature in self.features:
            column = chunk.of.get(feature.name)
            if feature.kind == NUMBER:
                values = None if column is None else cells.numbers_of(feature.name, column)
                missing = np.ones(chunk.samples, bool) if values is None else np.isnan(values)
                x[:, feature.value] = feature.fill if values is None else np.where(missing, feature.fill, values)
                if feature.missing != NONE:
                    x[:, feature.missing] = missing
                elif learned and missing.any():
                    raise MnemonError(f"the feature {feature.name!r} was never missing in a sample that was learned.")
                else:
                    self._fill_with_means(feature, x, missing)
            elif feature.kind == CATEGORY:
                strange = self._encode_categories(feature, column, x, learned)
                if column is not None and not learned:
                    _warn_of_strangers(feature, column, x)
                self._fill_with_means(feature, x, strange)
        if learned:
            known = {feature.name for feature in self.features if feature.kind is not None}
            for name, column in chunk.of.items():
                if name not in known and column.kind() is not None:
                    raise MnemonError(f"the feature {name!r} has no value in any sample that was learned.")
        return x

    def _warn_of_other_names(self, chunk: Columns) -> None:
        """Say it if a feature is in none of several samples, and others are there instead: it may be misspelled."""
        known = {feature.name for feature in self.features if feature.kind is not None}
        strange = [name for name in chunk.of if name not in known]
        absent = [
            feature.name for feature in self.features if feature.kind is not None and feature.name not in chunk.of
        ]
        if strange and absent:
            warn(
                f"these samples lack features that were learned ({_listed(absent)}) and have others that were not and are left "
                f"out ({_listed(strange)}); are the names right?"
            )

    def _fill_with_means(self, feature: Feature, x: NDArray[np.float64], rows: NDArray[np.bool_]) -> None:
        """`fill` is the mean of one chunk, maybe of one sample, and no category at all is a place where no sample was: what is
        predicted of these rows would depend on the feature that they lack."""
        means = self.means() if self.means is not None and rows.any() else None
        if means is not None:
            for column in feature.columns():
                x[rows, column] = means[column]

    def _encode_categories(
        self, feature: Feature, column: Column | None, x: NDArray[np.float64], learned: bool
    ) -> NDArray[np.bool_]:
        """Fill in the columns of a feature; True for samples of which it has no column [n]."""
        strange = np.zeros(len(x), np.bool_)
        for i, category in enumerate([None] * len(x) if column is None else cells.categories_of(feature.name, column)):
            place = feature.missing if category is None else feature.column(category)
            if place != NONE:
                x[i, place] = 1.0
            elif learned:
                what = "was never missing" if category is None else f"never had the category {category!r:.60}"
                raise MnemonError(f"the feature {feature.name!r} {what} in a sample that was learned.")
            else:
                strange[i] = True
        return strange

    def learn(self, chunk: Columns) -> Growth:
        """The columns that these samples ask for, and the samples in them."""
        if chunk.samples == 0:
            raise MnemonError("there must be at least one sample.")
        past: list[float] = []
        first = not self.features
        known = {feature.name: feature for feature in self.features}
        names = [*known, *(name for name in chunk.of if name not in known)]
        # New columns come by name, not as the keys of a dict or the columns of a frame happen to: a network depends on it.
        grown = {
            name: self._grown(known.get(name, Feature(name)), chunk.of.get(name), past, first=first)
            for name in sorted(names, key=_by_name)
        }
        features = [grown[name] for name in names]
        width = self.width + len(past)
        if width == 0:
            raise MnemonError("there must be at least one sample with at least one feature that has a value.")
        if width > MOST_COLUMNS:
            raise MnemonError(
                f"with these samples the features take {width:,} columns, and at most {MOST_COLUMNS:,} can be learned; are "
                "identifiers or values among the names of the features?"
            )
        table = self if not past and len(features) == len(self.features) else Table(tuple(features))
        return Growth(table, table.encode(chunk), [] if first else past)

    def _grown(self, feature: Feature, column: Column | None, past: list[float], *, first: bool) -> Feature:
        """A feature with the columns that a chunk adds to it; what they hold in all samples before is appended to `past`."""

        def new(before: float) -> int:
            past.append(before)
            return self.width + len(past) - 1

        kind = feature.kind or (None if column is None else column.kind())
        if kind is None:
            return feature
        begins = feature.kind is None
        if kind == NUMBER:
            values = None if column is None else cells.numbers_of(feature.name, column)
            missing = values is None or bool(np.isnan(values).any())
            if begins:
                assert values is not None, "its first value is in this chunk"
                fill = float(np.float32(np.nanmean(values)))
                feature = replace(feature, kind=kind, fill=fill, value=new(fill))
        else:
            found = None if column is None else cells.categories_of(feature.name, column)
            missing = found is None or None in found
            feature = replace(feature, kind=kind, categories=dict(feature.categories))
            for category in dict.fromkeys((type(each), each) for each in found or () if each is not None):
                if category in feature.categories:
                    continue
                if len(feature.categories) < MOST_CATEGORIES:
                    feature.categories[category] = new(0.0)
                elif feature.other == NONE:
                    feature = replace(feature, other=new(0.0))
        if feature.missing == NONE and (missing or (begins and not first)):
            feature = replace(feature, missing=new(1.0 if begins else 0.0))
        return feature

    # --- two tables

    def united(self, other: Table) -> tuple[Table, list[float], NDArray[np.float64], NDArray[np.float64]]:
        """A table with the features of both, this one's columns first, and what those behind them hold in this one's samples.
        Then A and b, with which a sample x of the other table is A·x + b in it."""
        past: list[float] = []
        features = {feature.name: feature for feature in self.features}
        theirs = {feature.name: feature for feature in other.features}
        for name, its in theirs.items():
            features[name] = self._joined(features.get(name, Feature(name)), its, past)
        for name, mine in features.items():  # one the other never had: all of its samples miss it
            if mine.kind is not None and mine.missing == NONE and (name not in theirs or theirs[name].kind is None):
                features[name] = replace(mine, missing=self.width + len(past))
                past.append(0.0)
        table = Table(tuple(features.values()))
        if table.width > MOST_COLUMNS:
            raise MnemonError(
                f"together the models have {table.width:,} columns, and at most {MOST_COLUMNS:,} can be learned."
            )
        a, b = np.zeros((table.width, other.width)), np.zeros(table.width)
        for feature in table.features:
            _into(feature, theirs.get(feature.name, Feature(feature.name)), a, b)
        return table, past, a, b

    def _joined(self, mine: Feature, its: Feature, past: list[float]) -> Feature:
        def new(before: float) -> int:
            past.append(before)
            return self.width + len(past) - 1

        if its.kind is None:
            return mine
        begins = mine.kind is None
        if not begins and mine.kind != its.kind:
            raise MnemonError(f"the feature {mine.name!r} holds numbers in one model and categories in the other.")
        if its.kind == NUMBER:
            if begins:
                mine = replace(mine, kind=NUMBER, fill=its.fill, value=new(its.fill))
        else:
            every = mine.categories.keys() | its.categories.keys()
            others = mine.other != NONE or its.other != NONE
            if len(every) > MOST_CATEGORIES or (
                others and not begins and mine.categories.keys() != its.categories.keys()
            ):
                raise MnemonError(
                    f"the feature {mine.name!r} has more than {MOST_CATEGORIES} categories, and which ones share a column is "
                    "not the same in both models."
                )
            mine = replace(mine, kind=CATEGORY, categories=dict(mine.categories))
            for category in its.categories:
                if category not in mine.categories:
                    mine.categories[category] = new(0.0)
            if its.other != NONE and mine.other == NONE:
                mine = replace(mine, other=new(0.0))
        if mine.missing == NONE and (its.missing != NONE or begins):
            mine = replace(mine, missing=new(1.0 if begins else 0.0))
        return mine

    # --- on disk

    def as_json(self) -> list[dict[str, Any]]:
        """All of it, as JSON holds it."""
        return [
            {
                "name": feature.name,
                "kind": feature.kind,
                "fill": feature.fill,
                "value": feature.value,
                "missing": feature.missing,
                "other": feature.other,
                "categories": [[category, column] for (_, category), column in feature.categories.items()],
            }
            for feature in self.features
        ]

    @staticmethod
    def from_json(found: Any) -> Table:
        """What `as_json` gave. Anything that it cannot have given is a ValueError."""
        if not isinstance(found, list):
            raise ValueError("its features are not listed")
        table = Table(tuple(_feature(each) for each in found))
        columns = sorted(column for feature in table.features for column in feature.columns())
        if columns != list(range(len(columns))) or not 0 < len(columns) <= MOST_COLUMNS:
            raise ValueError("the columns of its features are not one behind the other")
        if len({(type(name), name) for name in table.names}) < len(table.names):
            raise ValueError("a feature comes twice")
        return table


def _listed(names: Sequence[Name]) -> str:
    """The first names, and how many there are."""
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _by_name(name: Name) -> tuple[bool, Name]:
    """A key to sort names by, of which some may be ints."""
    return isinstance(name, str), name


def _warn_of_strangers(feature: Feature, column: Column, x: NDArray[np.float64]) -> None:
    """Say it if several samples have values, and none of these was ever learned: they may be of another type."""
    if len(x) < 2 or feature.other != NONE or x[:, list(feature.categories.values())].any():
        return
    values = [category for category in cells.categories_of(feature.name, column) if category is not None]
    if len(values) > 1:
        known, found = next(iter(feature.categories))[1], values[0]
        warn(
            f"no value of the feature {feature.name!r} in these samples was ever learned, so they are predicted without it: "
            f"one is {found!r:.60} ({type(found).__name__}), and one that was learned {known!r:.60} ({type(known).__name__})."
        )


def _into(mine: Feature, its: Feature, a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    """Fill in the rows of A and b that belong to one feature: its columns in the other table, in terms of that table's."""
    if mine.kind is None:
        return
    if its.kind is None:  # missing in all samples
        b[mine.missing] = 1.0
        if mine.kind == NUMBER:
            b[mine.value] = mine.fill
        return
    if mine.kind == NUMBER:
        a[mine.value, its.value] = 1.0
        if its.missing != NONE:
            a[mine.value, its.missing] = mine.fill - its.fill  # it stands there with the other's fill
    for category, column in its.categories.items():
        a[mine.categories[category], column] = 1.0
    for row, column in ((mine.missing, its.missing), (mine.other, its.other)):
        if column != NONE:
            a[row, column] = 1.0


def _feature(found: Any) -> Feature:
    """A feature from a file that may come from anywhere."""
    keys = {"name", "kind", "fill", "value", "missing", "other", "categories"}
    if not isinstance(found, dict) or found.keys() != keys:
        raise ValueError("a feature is not described as it should be")
    name, kind, fill, categories = (found[key] for key in ("name", "kind", "fill", "categories"))
    places = [found[key] for key in ("value", "missing", "other")]
    pairs: list[Any] = categories if isinstance(categories, list) else [None]
    fine = (
        type(name) in (str, int)
        and kind in (None, NUMBER, CATEGORY)
        and type(fill) is float
        and math.isfinite(fill)
        and abs(fill) <= FLOAT32
        and float(np.float32(fill)) == fill
        and all(isinstance(pair, list) and len(pair) == 2 and type(pair[0]) in (str, int, bool) for pair in pairs)
        and all(type(column) is int and NONE <= column < MOST_COLUMNS for column in places)
        and all(type(column) is int and 0 <= column < MOST_COLUMNS for _, column in pairs)
        and len(pairs) <= MOST_CATEGORIES
    )
    if not fine:
        raise ValueError(f"the feature {name!r:.60} is out of range")
    value, missing, other = places
    by_category = {(type(category), category): column for category, column in pairs}
    feature = Feature(name, kind, fill, value, missing, other, by_category)
    made = (kind == NUMBER) == (feature.value != NONE) and (kind == CATEGORY) == (len(pairs) > 0)
    if len(feature.categories) < len(pairs) or not made or (kind is None and any(True for _ in feature.columns())):
        raise ValueError(f"the columns of the feature {name!r:.60} do not match its kind")
    return feature
