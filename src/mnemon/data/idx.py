"""The idx format of MNIST's four files, and of the datasets that are laid out as MNIST is."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemon.data.canonical import Content
from mnemon.errors import MnemonError

MAX_BYTES = 1 << 26  # of one file, uncompressed; the largest has 47 million


def read_local(folder: Path, name: str) -> bytes:
    """One file of a folder, plain or .gz, named with `-idx` or `.idx`."""
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
    """The dataset from the bytes of its four files, by name."""
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
