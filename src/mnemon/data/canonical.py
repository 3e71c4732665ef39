"""One order and one checksum for the same images, whatever archive they came from.

Archives of one dataset list its rows in different orders. A stream is a schedule of row indices, so the same seed gives
the same stream everywhere only if the rows have one order. That order is (label, SHA-256 of the pixel bytes).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]  # [n, channels, height, width]
Labels = NDArray[np.int64]  # [n]


@dataclass(frozen=True)
class Content:
    """The four arrays of a dataset, before they become tensors."""

    x_train: Pixels
    y_train: Labels
    x_test: Pixels
    y_test: Labels
    classes: tuple[str, ...] = ()  # the label names, where the files bring them


def order(x: Pixels, y: Labels) -> NDArray[np.intp]:
    """The permutation that sorts rows by (label, SHA-256 of the pixels). Equal rows tie, and may: they are equal."""
    digests = b"".join(hashlib.sha256(row).digest() for row in np.ascontiguousarray(x))
    # A digest as four big-endian numbers compares like its bytes. [n, 4]
    words = np.frombuffer(digests, dtype=">u8").reshape(len(x), 4)
    return np.lexsort((words[:, 3], words[:, 2], words[:, 1], words[:, 0], y))  # the last key leads


def canonical(content: Content) -> Content:
    """The same content with the rows of each split in canonical order."""
    train = order(content.x_train, content.y_train)
    test = order(content.x_test, content.y_test)
    return replace(
        content,
        x_train=content.x_train[train],
        y_train=content.y_train[train],
        x_test=content.x_test[test],
        y_test=content.y_test[test],
    )


def checksum(content: Content) -> str:
    """SHA-256 (hex) over the shapes and the bytes of the four arrays, labels as little-endian int64."""
    arrays: tuple[tuple[str, NDArray[Any]], ...] = (
        ("x_train", content.x_train),
        ("y_train", content.y_train.astype("<i8", copy=False)),
        ("x_test", content.x_test),
        ("y_test", content.y_test.astype("<i8", copy=False)),
    )
    header = "".join(f"{name} {' '.join(map(str, array.shape))}\n" for name, array in arrays)
    digest = hashlib.sha256(header.encode())
    for _, array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def stratified_split(x: Pixels, y: Labels, classes: tuple[str, ...] = ()) -> Content:
    """Canonical content with a stratified test part: every fifth row of each class.

    Rows of a class are in hash order, so taking every fifth is a fixed draw at random. The test rows are the second,
    seventh, ... of their class, so a class of two images still has one to learn from and one to be tested on.
    """
    rows = order(x, y)
    x, y = x[rows], y[rows]
    test = place_in_class(y) % 5 == 1
    return Content(x[~test], y[~test], x[test], y[test], classes)


def place_in_class(y: Labels) -> Labels:
    """For each row, how many earlier rows have the same label."""
    place = np.empty(len(y), dtype=np.int64)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        place[rows] = np.arange(len(rows))
    return place
