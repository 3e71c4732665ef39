"""Image folders: a sub-folder per class."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mnemon.data.canonical import Content, Labels, canonical, stratified_split
from mnemon.data.images import KINDS, is_image, read_images
from mnemon.errors import MnemonError
from mnemon.files import is_clutter
from mnemon.runtime.progress import Progress

logger = logging.getLogger(__name__)
Classes = Mapping[str, Sequence[Path]]  # class name -> its files, both sorted by name
PARTS = ("train", "test", "val", "valid", "validation")  # folders of class folders, rather than classes


def read_folder(path: Path, size: int | None, progress: Progress) -> Content:
    """A dataset of class folders, canonical.

    With train/<class> and test/<class> that cut is kept; else a fifth of each class becomes the test part.
    """
    train, test = path / "train", path / "test"
    if not (_subfolders(train) and _subfolders(test)):
        classes = class_files(path, at_least=2)
        x = read_images(files_of(classes), size, progress, text=f"decode {path.name}")
        return stratified_split(x, labels_of(classes), tuple(classes))

    learn, judge = class_files(train), class_files(test)
    if odd := sorted(learn.keys() ^ judge.keys()):
        here, there = (train, test) if odd[0] in learn else (test, train)
        raise MnemonError(f"class {odd[0]!r} is in {here} but not in {there}; both need the same class folders.")
    files = [*files_of(learn), *files_of(judge)]
    x = read_images(files, size, progress, text=f"decode {path.name}")  # together, so that all have one size
    y_train, y_test = labels_of(learn), labels_of(judge)
    cut = len(y_train)
    return canonical(Content(x[:cut], y_train, x[cut:], y_test, tuple(learn)))


def class_files(path: Path, *, at_least: int = 1, classes_at_least: int = 2, skip_empty: bool = False) -> Classes:
    """The image files of each class folder and its sub-folders, in file order; a warning names what is left out.
    `skip_empty`: folders without images are left out too, unless all are."""
    folders = _subfolders(path)
    if len(folders) < classes_at_least:
        raise MnemonError(
            f"{path} holds {len(folders)} class folder{'s' * (len(folders) != 1)}; put the images of each class into a "
            f"sub-folder with its name, at least {classes_at_least}."
        )
    parts = [folder for folder in folders if folder.name in PARTS]
    cut = [folder for folder in parts if _subfolders(folder)]
    if cut and (len(parts) > 1 or parts == folders):
        names = ", ".join(folder.name for folder in parts)
        raise MnemonError(f"{path} is cut into parts ({names}), not classes; give {' or '.join(map(str, cut))}.")
    found = {folder.name: files_below(folder) for folder in folders}
    classes = {name: [file for file in files if is_image(file)] for name, files in found.items()}
    empty = [path / name for name, files in classes.items() if not files]
    if skip_empty and 0 < len(empty) < len(classes):
        classes = {name: files for name, files in classes.items() if files}
    for name, files in classes.items():
        if not files:
            raise MnemonError(f"class folder {path / name} holds no images ({KINDS}).")
        if len(files) < at_least:
            raise MnemonError(f"class folder {path / name} holds {len(files)} image; a class needs {at_least} or more.")
    outside = sorted(file for file in path.iterdir() if not file.is_dir() and not is_clutter(file.name))
    others = [file for files in found.values() for file in files if not is_image(file)]
    why = ((outside, "outside any class folder"), (others, f"not {KINDS}"))
    said = [f"{_count(files)} {reason} (as {files[0]})" for files, reason in why if files]
    if skip_empty and empty:
        more = f" and {len(empty) - 1:,} other class folders" if len(empty) > 1 else ""
        said.append(f"{empty[0]}{more}, without an image")
    if said:
        logger.warning(f"left out of {path}: {', '.join(said)}.")
    if all(file.parent.parent != path for file in files_of(classes)):
        name, files = next(iter(classes.items()))
        logger.warning(f"no image lies in a class folder itself: {files[0]} is taken for class {name!r}.")
    return classes


def _count(files: list[Path]) -> str:
    return f"{len(files):,} {'file' if len(files) == 1 else 'files'}"


def files_below(folder: Path) -> list[Path]:
    """All files of a folder and its sub-folders, by relative path; what is hidden is passed over.

    Links are followed, but never up, and to each folder once: a loop of links ends.
    """
    found: list[Path] = []
    seen = {str(parent) for parent in folder.resolve().parents}
    for where, inner, names in os.walk(folder, followlinks=True, onerror=_refuse):
        real = os.path.realpath(where)
        inner[:] = [] if real in seen else sorted(name for name in inner if not name.startswith("."))
        if real not in seen:
            found += [Path(where, name) for name in names if not is_clutter(name)]
        seen.add(real)
    return sorted(found, key=lambda file: file.relative_to(folder).as_posix())


def _refuse(error: OSError) -> None:
    raise MnemonError(f"the folder {error.filename} cannot be read ({error.strerror}).") from error


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
