"""The label table: labels become class indices in the order of their first arrival, and never move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemon.errors import MnemonError

Label = str | int | bool


class LabelTable:
    """Append-only. `True` and `1` are different labels, although Python holds them for equal."""

    def __init__(self, labels: Iterable[Label] = ()) -> None:
        self.labels: list[Label] = []
        self._index: dict[tuple[type, Label], int] = {}
        self.add(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """The class index of each label; those not seen before are appended in the order they come."""
        plain = [_plain(label) for label in labels]  # all are checked before any is added
        out = np.empty(len(plain), np.int64)
        for i, label in enumerate(plain):
            key = (type(label), label)
            index = self._index.get(key)
            if index is None:
                index = self._index[key] = len(self.labels)
                self.labels.append(label)
            out[i] = index
        return out

    def find(self, labels: Iterable[Any]) -> NDArray[np.int64]:
        """The class index of each label, −1 for one that was never seen; adds nothing."""
        plain = (_plain(label) for label in labels)
        return np.array([self._index.get((type(label), label), -1) for label in plain], np.int64)


def _plain(label: Any) -> Label:
    """A NumPy scalar as the Python one it holds."""
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) not in (str, int, bool):
        raise MnemonError(f"a label is a str, an int or a bool, not {label!r} ({type(label).__name__}).")
    return label  # type: ignore[no-any-return]
