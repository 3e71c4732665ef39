"""A space to search: for each option a range of numbers (lr=1e-3..0.5:log) or a list of values (divisor=active,batch)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mnemon.errors import MnemonError
from mnemon.experiments.recipes.grids import Grid
from mnemon.experiments.tuning.words import Word, parse_values, read_words
from mnemon.learning import options
from mnemon.learning.build import Choice

FORM = "OPTION=LOW..HIGH, OPTION=LOW..HIGH:log or OPTION=VALUE,VALUE (lr=1e-3..0.5:log)"
DIGITS = 4  # of a proposed number: it can be read and typed, and does not depend on the last bits of a computation
WIDE = 10  # the ratio of its ends from which the range of a grid is logarithmic
NEAR = 0.02  # of a range: a value this close to an end is at the edge


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included: whole ones where both are ints."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int)

    def rounded(self, value: float) -> float:
        """The number with few digits that is nearest: in a logarithmic range of its own size, else of the range's."""
        if self.whole:
            return value
        size = abs(value) if self.log else self.high - self.low
        return min(max(round(value, DIGITS - 1 - math.floor(math.log10(size))), self.low), self.high)

    def edge(self, value: float) -> str | None:
        """Which end a value is at: "lower", "upper", or None."""
        low, high, at = (
            (math.log(n) for n in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        share = (at - low) / (high - low)
        return "lower" if share <= NEAR else "upper" if share >= 1 - NEAR else None

    def __str__(self) -> str:
        return f"{self.low}..{self.high}{':log' if self.log else ''}"


Space = dict[str, Range | tuple[Any, ...]]


def parse_space(words: Sequence[str], choice: Choice) -> Space:
    """lr=1e-3..0.5:log → {"lr": Range(0.001, 0.5, log=True)}, in the option's own type."""
    return {
        word.name: _parse_range(word) if ".." in word.values else parse_values(word)
        for word in read_words(words, choice, "space", FORM)
    }


def space_of(grid: Grid) -> Space:
    """What a grid spans: where it has several numbers their range, logarithmic if it is wide; else its values."""
    return {name: _span(values) for name, values in grid.items()}


def _span(values: tuple[Any, ...]) -> Range | tuple[Any, ...]:
    if len(values) < 2 or any(isinstance(value, str) for value in values):
        return values
    low, high = min(values), max(values)
    return Range(low, high, log=low > 0 and high >= WIDE * low)


def ends(space: Space) -> list[dict[str, Any]]:
    """Values of single options that are all valid if every value of the space is."""
    return [
        {name: value}
        for name, tried in space.items()
        for value in ((tried.low, tried.high) if isinstance(tried, Range) else tried)
    ]


def _parse_range(word: Word) -> Range:
    numbers, colon, ending = word.values.partition(":")
    if colon and ending != "log":
        raise MnemonError(f"{word.text} ends with {':' + ending!r}; the only ending of a range is :log.")
    kind = options.kind(word.field)
    if kind not in (int, float):
        some = ",".join(word.field.metadata.get("choices", ())[:2]) or "VALUE,VALUE"
        raise MnemonError(f"{word.name} takes words, which have no range; write {word.name}={some}.")
    low, high = (options.parse(word.field, text) for text in numbers.split("..", 1))
    for end in (low, high):
        if isinstance(end, str):
            raise MnemonError(f"a range lies between two numbers, and {end} in {word.text} is a word.")
    if not low < high:
        raise MnemonError(f"{word.text} is empty: the first number of a range must be below the second.")
    if colon and low <= 0:
        raise MnemonError(f"{word.text} is not possible: a logarithmic range begins above 0.")
    return Range(low, high, log=bool(colon))
