"""Arrays of NumPy: embeddings, rows of numbers or images. Nothing that could run code is read."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemon.errors import MnemonError
from mnemon.own_data.readers.reader import DIGEST, START, Changed, Chunk, Length, Position, Refuse
from mnemon.readers.columns import NONE

BLOCK = 1000  # rows digested at once


class ArrayReader:
    """`data.npz` holds x [n, …] and y [n]; or `x.npy` the samples, and another .npy file the labels."""

    key = "row"
    names: list[str] | None = None
    typed = True
    columns = NONE
    notice: str | None = None

    def __init__(self, path: Path, labels: Path | None = None) -> None:
        self.path = path
        self.x, self.y = _load(path, labels)
        if self.x.ndim < 2 or self.x.dtype.kind not in "biuf":
            raise MnemonError(
                f"{path} holds an array of shape {self.x.shape} and type {self.x.dtype}; x is (n, features) or (n, height, "
                "width, channels), of numbers."
            )
        if self.y is not None and self.y.shape != (len(self.x),):
            raise MnemonError(
                f"{path} has {len(self.x)} samples and labels of shape {self.y.shape}; there must be one label for each sample."
            )

    def chunks(self, start: Position, length: Length, refuse: Refuse, *, labelled: bool) -> Iterator[Chunk]:
        if labelled and self.y is None:
            raise MnemonError(
                f"{self.path} has no labels: give an .npz file with x and y, or --labels y.npy beside x.npy."
            )
        digests = _Digests(self)
        at, n = start.rows, len(self.x)
        for begin in range(0, at, BLOCK):
            digests.take(begin, min(begin + BLOCK, at, n))
        if start != START and (at > n or digests.position(at) != start):
            raise Changed(f"{self.path} no longer begins with the {at:,} rows that were read of it")
        while at < n:
            end = min(at + length(), n)
            digests.take(at, end)
            y = self.y[at:end].tolist() if labelled and self.y is not None else None
            yield Chunk(digests.position(end), np.array(self.x[at:end]), y, list(range(at + 1, end + 1)), None, end / n)
            at = end


class _Digests:
    """Of samples and labels, each in their order, so that it does not matter how they are cut into chunks."""

    def __init__(self, reader: ArrayReader) -> None:
        self._reader = reader
        self._x = hashlib.blake2b(repr((reader.x.dtype.str, reader.x.shape[1:])).encode(), digest_size=DIGEST)
        self._y = hashlib.blake2b(digest_size=DIGEST)

    def take(self, begin: int, end: int) -> None:
        self._x.update(np.ascontiguousarray(self._reader.x[begin:end]).tobytes())
        if self._reader.y is not None:
            self._y.update("".join(f"{label!r}\n" for label in self._reader.y[begin:end].tolist()).encode())

    def position(self, rows: int) -> Position:
        both = hashlib.blake2b(self._x.digest() + self._y.digest(), digest_size=DIGEST)
        return Position(rows, rows, both.digest())


def _load(path: Path, labels: Path | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    if path.suffix.lower() == ".npy":
        return _array(path), None if labels is None else _array(labels)
    if labels is not None:
        raise MnemonError(f"{path} holds its labels itself, as y; --labels is for .npy files.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = {name.lower(): archive[name] for name in archive.files if name.lower() in ("x", "y")}
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise MnemonError(f"{path} is not a readable .npz file of plain arrays ({_brief(error)}).") from None
    if "x" not in found:
        raise MnemonError(f"{path} holds no array x; an .npz file has the samples as x and their labels as y.")
    return found["x"], found.get("y")


def _array(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise MnemonError(f"there is no file {path}.")
    try:
        found: NDArray[Any] = np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise MnemonError(f"{path} is not a readable .npy file of plain numbers ({_brief(error)}).") from None
    return found


def _brief(error: Exception) -> str:
    if "allow_pickle" in str(error):
        return (
            "it holds Python objects, which are pickles; y.astype(str) makes texts of labels, x.astype(float) numbers"
        )
    return str(error).splitlines()[0] if str(error) else type(error).__name__
