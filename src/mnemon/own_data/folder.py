"""The files of a class folder: in which order they are learned, and how one is known again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mnemon.data.folders import class_files
from mnemon.errors import MnemonError, check_known

DIGEST = 16  # bytes


class File(NamedTuple):
    path: Path
    label: str  # the name of its class folder
    name: str  # its own; with the sub-folders on the way, if it lies in one


def files_of(folder: Path) -> list[File]:
    """The images of each class folder, by class and name; a warning names files that are left out."""
    if not folder.is_dir():
        raise MnemonError(f"there is no file or folder {folder}.")
    found = [
        File(path, label, path.relative_to(folder / label).as_posix())
        for label, paths in class_files(folder, classes_at_least=1, skip_empty=True).items()
        for path in paths
    ]
    for file in found:
        try:
            file.label.encode()
        except UnicodeEncodeError:
            raise MnemonError(f"the name of the class folder {file.label!a} is not text; rename it.") from None
    return found


def _shuffled(file: File, seed: int) -> tuple[object, ...]:
    """A key for each file on its own: files that are added later do not change the order of the others."""
    return (hashlib.blake2b(f"{seed}/".encode() + _name(file)).digest(),)


def _by_time(file: File, seed: int) -> tuple[object, ...]:
    try:
        time = file.path.stat().st_mtime_ns
    except OSError:  # a broken link: reading it will say so
        time = 0
    return time, file.name, file.label


def _by_class(file: File, seed: int) -> tuple[object, ...]:
    return file.label, file.name


ORDERS: dict[str, Callable[[File, int], tuple[object, ...]]] = {
    "shuffled": _shuffled,
    "time": _by_time,
    "by-class": _by_class,
}


def check_order(order: str) -> None:
    check_known("order", order, ORDERS)


def in_order(files: list[File], order: str, seed: int) -> list[File]:
    check_order(order)
    return sorted(files, key=lambda file: ORDERS[order](file, seed))


def digest(file: File) -> bytes:
    """What makes it this file: its class, its name and its bytes. Where its folder lies does not matter."""
    if not file.path.is_file():  # a pipe would wait for ever
        raise MnemonError(f"{file.path} is not a file that can be read.")
    found = hashlib.blake2b(_name(file), digest_size=DIGEST)
    try:
        with file.path.open("rb") as content:
            while part := content.read(1 << 20):
                found.update(part)
    except OSError as error:
        raise MnemonError(f"{file.path} cannot be read ({error.strerror}).") from None
    return found.digest()


def _name(file: File) -> bytes:
    return os.fsencode(file.label) + b"/" + os.fsencode(file.name) + b"\0"
