"""`mnemon data list`, `get`, `import` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.options import unset
from mnemon.cli.output import WHAT, table

Name = Positional[Annotated[str, arg(metavar="DATASET", help="the dataset; `mnemon data list` has them all")]]


def list_datasets() -> None:
    """List the datasets, and which of them are here."""
    from mnemon import data

    table(
        f"datasets (cache: {data.cache_dir()})",
        ("name", WHAT, "classes", "train / test", "image", "state"),
        [
            (i.name, i.description, str(i.classes), f"{i.train:,} / {i.test:,}", "×".join(map(str, i.shape)), i.state)
            for i in data.listing()
        ],
    )


def get(name: Name) -> None:
    """Download a dataset, verify it and store it in the cache."""
    from mnemon import data

    print(data.get(name))


def import_(
    name: Positional[
        Annotated[str, arg(metavar="NAME", help="a built-in dataset, or a new name for an image folder of yours")]
    ],
    path: Positional[
        Annotated[Path, arg(metavar="PATH", help="the local copy: archive, folder of files, or a folder per class")]
    ],
    size: Annotated[int | None, unset("bring your own images to this size (short side, then crop)", "PIXELS")] = None,
) -> None:
    """Take a dataset from a local copy: CIFAR's binary archive, MNIST's idx files, miniImageNet, or a folder per class."""
    from mnemon import data

    print(data.import_(name, path, size=size))


def check(name: Name) -> None:
    """Verify the stored copy of a dataset against its checksum."""
    from mnemon import data

    print(f"{name}: {data.check(name)}")


COMMANDS = (
    Command("data list", list_datasets),
    Command("data get", get),
    Command("data import", import_),
    Command("data check", check),
)
