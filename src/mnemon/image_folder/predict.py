"""Labels for image files."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.data import channels_last
from mnemon.data.folders import files_below
from mnemon.data.images import KINDS, is_image
from mnemon.errors import MnemonError
from mnemon.image_folder.images import ImageArray, ImageModel
from mnemon.learning.labels import Label

AT_ONCE = 100  # images in memory


class Guess(NamedTuple):
    label: Label
    confidence: float


class Predicted(NamedTuple):
    path: Path
    guesses: list[Guess]  # the best first; none where the file could not be read
    error: str | None = None


def images(words: Sequence[str]) -> list[Path]:
    """The files somebody names: as they are, all images below a folder, or all that a pattern stands for."""
    found: list[Path] = []
    for word in words:
        path = Path(word)
        if path.is_dir():
            here = list(filter(is_image, files_below(path)))
        elif path.exists() or path.is_symlink() or not glob.has_magic(word):
            here = [path]  # one that is not there is named when it is read
        else:  # quoted, or a shell that leaves patterns to the program
            here = [p for p in map(Path, sorted(glob.glob(word, recursive=True))) if is_image(p)]
        if not here:
            raise MnemonError(f"there are no images in {word} ({KINDS}).")
        found += here
    return found


def predict(model: ImageModel, paths: Sequence[Path], top: int = 1) -> Iterator[Predicted]:
    """One after the other, in the order given."""
    if top < 1:
        raise MnemonError(f"top is how many labels to show, 1 or more, not {top}.")
    for start in range(0, len(paths), AT_ONCE):
        part = [_read(model, path) for path in paths[start : start + AT_ONCE]]
        readable = [image for image in part if not isinstance(image, MnemonError)]
        rows: Iterator[NDArray[np.float64]] = iter(
            model.classifier.predict_proba(channels_last(np.stack(readable))) if readable else []
        )
        labels = model.classifier.classes_.tolist()
        for path, image in zip(paths[start:], part, strict=False):
            if isinstance(image, MnemonError):
                yield Predicted(path, [], str(image))
                continue
            row = next(rows)
            best = np.argsort(-row, kind="stable")[:top]
            yield Predicted(path, [Guess(labels[i], float(row[i])) for i in best])


def _read(model: ImageModel, path: Path) -> ImageArray | MnemonError:
    if not path.is_file():
        return MnemonError(f"there is no file {path}.")
    try:
        return model.read(path)
    except MnemonError as error:
        return error
