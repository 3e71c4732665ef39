"""Image folders: a sub-folder per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mnemon.data.canonical import Content, Labels, canonical, cut_fifth
from mnemon.data.images import is_image, read_images
from mnemon.data.progress import Report
from mnemon.errors import MnemonError

Classes = Mapping[str, Sequence[Path]]  # class name -> its files, both sorted by name


def read_folder(path: Path, size: int | None, report: Report) -> tuple[Content, tuple[str, ...]]:
    """A dataset of class folders, canonical, and its class names.

    With train/<class> and test/<class> that cut is kept; else a fifth of each class becomes the test part.
    """
    train, test = path / "train", path / "test"
    if not (_subfolders(train) and _subfolders(test)):
        classes = class_files(path, at_least=2)
        x = read_images(files_of(classes), size, report, text=f"decode {path.name}")
        return cut_fifth(x, labels_of(classes)), tuple(classes)

    learn, judge = class_files(train), class_files(test)
    if odd := sorted(learn.keys() ^ judge.keys()):
        here, there = (train, test) if odd[0] in learn else (test, train)
        raise MnemonError(f"class {odd[0]!r} is in {here} but not in {there}; both need the same class folders.")
    files = [*files_of(learn), *files_of(judge)]
    x = read_images(files, size, report, text=f"decode {path.name}")  # together, so that all have one size
    y_train, y_test = labels_of(learn), labels_of(judge)
    cut = len(y_train)
    return canonical(Content(x[:cut], y_train, x[cut:], y_test)), tuple(learn)


def class_files(path: Path, *, at_least: int = 1, classes_at_least: int = 2) -> Classes:
    """The image files of each class folder, in file order."""
    folders = _subfolders(path)
    if len(folders) < classes_at_least:
        raise MnemonError(
            f"{path} holds {len(folders)} class folders; it needs a folder per class, at least {classes_at_least}."
        )
    classes = {
        folder.name: sorted(filter(is_image, folder.iterdir()), key=lambda file: file.name) for folder in folders
    }
    for name, files in classes.items():
        if not files:
            raise MnemonError(f"class folder {path / name} holds no images (png, jpg, bmp, webp, gif, ppm or tiff).")
        if len(files) < at_least:
            raise MnemonError(f"class folder {path / name} holds {len(files)} image; a class needs {at_least} or more.")
    return classes


def _subfolders(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    folders = [folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    return sorted(folders, key=lambda folder: folder.name)


def files_of(classes: Classes) -> list[Path]:
    return [file for files in classes.values() for file in files]


def labels_of(classes: Classes) -> Labels:
    """The label of each file of `files_of`: the position of its class."""
    return np.repeat(np.arange(len(classes)), [len(files) for files in classes.values()]).astype(np.int64)
