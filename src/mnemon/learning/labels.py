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
        told, keys = _keyed(labels)  # all are checked before any is added
        for key in keys.values():
            if key not in self._index:
                self._index[key] = len(self.labels)
                self.labels.append(key[1])
        return _looked_up(told, {each: self._index[key] for each, key in keys.items()})

    def find(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """The class index of each label, −1 for one that was never seen; adds nothing."""
        told, keys = _keyed(labels)
        return _looked_up(told, {each: self._index.get(key, -1) for each, key in keys.items()})

    def count_new(self, labels: Iterable[Any]) -> int:
        """How many labels `add` would append."""
        return sum(key not in self._index for key in _keyed(labels)[1].values())


def _keyed(labels: Iterable[Any]) -> tuple[list[Any], dict[Any, Key]]:
    """Labels as what tells them apart among themselves, and the key of each different one, in the order they come.

    A large chunk has many labels and few different ones: only these are looked at by a loop of ours. Labels of one type, as
    most are, tell themselves apart.
    """
    plain = _plain(labels)
    if len(set(map(type, plain))) > 1:
        pairs = list(zip(map(type, plain), plain, strict=True))
        return pairs, {pair: pair for pair in dict.fromkeys(pairs)}
    return plain, {label: (type(label), label) for label in dict.fromkeys(plain)}


def _looked_up(told: list[Any], table: dict[Any, int]) -> NDArray[np.int64]:
    return np.fromiter(map(table.__getitem__, told), np.int64, len(told))


def _plain(labels: Iterable[Any]) -> list[Label]:
    """Labels as a list, NumPy's scalars as the Python ones they hold."""
    found = list(labels)
    if KINDS.issuperset(map(type, found)):
        return found
    found = [label.item() if isinstance(label, np.generic) else label for label in found]
    for label in found:
        if type(label) not in KINDS:
            raise MnemonError(f"a label is a str, an int or a bool, not {label!r} ({type(label).__name__}).")
    return found
