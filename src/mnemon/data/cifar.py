"""The binary archives of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mnemon.data import archive, fetch
from mnemon.data.canonical import Content, Labels, Pixels
from mnemon.errors import MnemonError
from mnemon.runtime.progress import Progress

SIDE = 32
PIXELS = 3 * SIDE * SIDE  # bytes of an image: its red, green and blue planes


@dataclass(frozen=True)
class Layout:
    """How one of the two datasets is laid out in its binary archive."""

    name: str
    remote: fetch.Remote
    folder: str  # inside the archive
    train: tuple[str, ...]  # files
    test: tuple[str, ...]
    rows: int  # in a train file; a test file has 10000
    label_bytes: int  # before each image; the last is the label we use
    pickles: frozenset[str]  # files only the Python version of the archive has


def source(layout: Layout, progress: Progress) -> fetch.Source:
    """The binary archive on its server."""

    def download() -> Content:
        body = fetch.https(layout.remote, progress)
        with progress.stage(f"unpack {layout.name}"):
            return _read_archive(layout, body, layout.remote.url)

    return fetch.Source(layout.remote.url, download)


def read(layout: Layout, path: Path, progress: Progress) -> Content:
    """The dataset from a local copy of the binary version: its folder, the folder that holds it, or the .tar.gz."""
    if not path.is_dir():
        return _read_archive(layout, path, str(path))
    names = {file.name for file in path.iterdir()}
    if layout.folder in names:
        return read(layout, path / layout.folder, progress)
    limits = _limits(layout)
    files = {name: _read_file(path / name, limit) for name, limit in limits.items() if name in names}
    _need_all(layout, files, names | {path.name}, str(path))
    return _from_binaries(layout, files)


def _read_archive(layout: Layout, source: Path | bytes, label: str) -> Content:
    files, names = archive.members(source, _limits(layout))
    _need_all(layout, files, names, label)
    return _from_binaries(layout, files)


def _limits(layout: Layout) -> dict[str, int]:
    row = layout.label_bytes + PIXELS
    return {**dict.fromkeys(layout.train, layout.rows * row), **dict.fromkeys(layout.test, 10000 * row)}


def _read_file(path: Path, limit: int) -> bytes:
    size = path.stat().st_size
    if size > limit:
        raise MnemonError(f"{path} has {size} bytes, more than {limit}.")
    return path.read_bytes()


def _need_all(layout: Layout, files: Mapping[str, bytes], names: set[str], label: str) -> None:
    missing = sorted(_limits(layout).keys() - files.keys())
    if not missing:
        return
    if names & layout.pickles:
        raise MnemonError(
            f"{label} is the Python version of {layout.name}: it holds pickles, which can execute code and are never "
            f"read; use the binary version at {layout.remote.url}."
        )
    raise MnemonError(f"{label} holds no {missing[0]}; give the binary version of {layout.name}.")


def _from_binaries(layout: Layout, files: Mapping[str, bytes]) -> Content:
    def join(names: tuple[str, ...]) -> tuple[Pixels, Labels]:
        parts = [read_binary(files[name], layout.label_bytes, name) for name in names]
        return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])

    return Content(*join(layout.train), *join(layout.test))


def read_binary(body: bytes, label_bytes: int, label: str) -> tuple[Pixels, Labels]:
    """Rows of label bytes and then 3072 planar pixel bytes, to [n, 3, 32, 32] and the last label byte [n]."""
    row = label_bytes + PIXELS
    if not body or len(body) % row:
        raise MnemonError(f"{label} has {len(body)} bytes, which is not a whole number of rows of {row}.")
    rows = np.frombuffer(body, dtype=np.uint8).reshape(-1, row)
    return rows[:, label_bytes:].reshape(-1, 3, SIDE, SIDE), rows[:, label_bytes - 1].astype(np.int64)
