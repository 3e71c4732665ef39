"""The label table: labels become class indices in the order of their first arrival, and never move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemon.errors import MnemonError

Label = str | int | bool
Key = tuple[type, Label]  # Python holds `True` and `1` for equal
KINDS = frozenset({str, int, bool})


class LabelTable:
    """Append-only. `True` and `1` are different labels, although Python holds them for equal."""

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self.labels: list[Label] = []
        self._index: dict[Key, int] = {}
        self.add(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """The class index of each label; those not seen before are appended in the order they come."""
        keys, told = _keyed(labels)  # all are checked before any is added
        for key in keys:
            if key not in self._index:
                self._index[key] = len(self.labels)
                self.labels.append(key[1])
        return np.array([self._index[key] for key in keys], np.int64)[told]

    def find(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """The class index of each label, −1 for one that was never seen; adds nothing."""
        keys, told = _keyed(labels)
        return np.array([self._index.get(key, -1) for key in keys], np.int64)[told]

    def count_new(self, labels: Iterable[Any]) -> int:
        """How many labels `add` would append."""
        return sum(key not in self._index for key in _keyed(labels)[0])


def number(text: str) -> Label:
    """The whole number that a text spells (`7`, not `07`), else the text."""
    plain = text.removeprefix("-")
    whole = plain.isascii() and plain.isdecimal() and len(plain) < 19 and str(int(text)) == text
    return int(text) if whole else text


def _keyed(labels: Iterable[Any]) -> tuple[list[Key], NDArray[np.int64]]:
    """The keys of the different labels, in the order they come, and for each label which of them is its.

    A large chunk has many labels and few different ones: only these are looked at by a loop of ours.
    """
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
        different, first, told = np.unique(labels, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return [(int, label) for label in different[order].tolist()], np.argsort(order)[told]
    plain = list(labels)
    kinds = set(map(type, plain))
    if not kinds <= KINDS:
        plain = _plain(plain)
        kinds = set(map(type, plain))
    if len(kinds) > 1:
        pairs = list(zip(map(type, plain), plain, strict=True))
        keys = dict.fromkeys(pairs)
        return list(keys), _places(pairs, keys)
    distinct = dict.fromkeys(plain)  # labels of one type, as most are, tell themselves apart
    return [(type(label), label) for label in distinct], _places(plain, distinct)


def _places(each: list[Any], distinct: Iterable[Any]) -> NDArray[np.int64]:
    """The place of each among those that are distinct."""
    place = {one: i for i, one in enumerate(distinct)}
    return np.fromiter(map(place.__getitem__, each), np.int64, len(each))


def _plain(labels: Iterable[Any]) -> list[Label]:
    """Labels with NumPy's scalars as the Python ones they hold."""
    found = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for label in found:
        if type(label) not in KINDS:
            raise MnemonError(f"a label is a str, an int or a bool, not {label!r} ({type(label).__name__}).")
    return found
