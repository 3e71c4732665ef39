"""Labels for image files, and for the rows of a table."""

from __future__ import annotations

import glob
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.data import channels_last
from mnemon.data.folders import files_below
from mnemon.data.images import KINDS, is_image
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier, calibration
from mnemon.learning.labels import Label
from mnemon.own_data import asking, values
from mnemon.own_data.images import ImageArray, ImageModel
from mnemon.own_data.readers.reader import START, Chunk, Reader
from mnemon.runtime.warn import heard

logger = logging.getLogger(__name__)
IMAGES, ROWS = 100, 1000  # in memory at once


class Guess(NamedTuple):
    label: Label
    confidence: float


class Predicted(NamedTuple):
    name: str | int  # the path of an image, the number of a line or row
    guesses: list[Guess]  # the best first; none where there is an error
    error: str | None = None
    id: Any = None  # what the row calls itself
    true: Label | None = None  # its label, where it was asked for
    done: float | None = None  # the share of the table that is done
    unsure: bool = False  # too little to give a label


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


def predict(model: ImageModel, paths: Sequence[Path], top: int = 1, reject: float | None = None) -> Iterator[Predicted]:
    """Images, one after the other, in the order given. `reject`: the least confidence not to be unsure."""
    _check_top(top)
    least = calibration.probability(reject)
    for start in range(0, len(paths), IMAGES):
        part = [_read(model, path) for path in paths[start : start + IMAGES]]
        readable = [image for image in part if not isinstance(image, MnemonError)]
        answers: Iterator[tuple[NDArray[np.float64], bool]] = iter(())
        if readable:
            answers = _asked(model.classifier, channels_last(np.stack(readable)), least)
        labels = model.classifier.classes_.tolist()
        for path, image in zip(paths[start:], part, strict=False):
            if isinstance(image, MnemonError):
                yield Predicted(str(path), [], str(image))
            else:
                row, unsure = next(answers)
                yield Predicted(str(path), _guesses(row, labels, top), unsure=unsure)


def predict_rows(
    classifier: OnlineClassifier,
    reader: Reader,
    top: int = 1,
    reject: float | None = None,
    *,
    labelled: bool = False,
) -> Iterator[Predicted]:
    """The rows of a table, in their order; one that cannot be read or is refused has an error in the place of guesses."""
    _check_top(top)
    least = calibration.probability(reject)
    refused: list[Predicted] = []  # by the reader, since the last chunk
    said: set[str] = set()  # warnings, once for a table

    def refuse(number: int, sentence: str) -> None:
        refused.append(Predicted(number, [], f"{reader.key} {number:,}: {sentence.removesuffix('.')}."))

    for chunk in reader.chunks(START, lambda: ROWS, refuse, labelled=labelled):
        chunk, unreadable = values.read(chunk, reader, classifier, learning=False)
        for place, sentence in unreadable.items():
            refuse(chunk.numbers[place], sentence)
        chunk = chunk.without(set(unreadable)) if unreadable else chunk
        found = [*refused, *(_answers(classifier, chunk, top, least, reader.key, said) if len(chunk) else ())]
        refused.clear()
        yield from sorted(found, key=lambda each: int(each.name))
    yield from refused


def _answers(
    classifier: OnlineClassifier, chunk: Chunk, top: int, least: float | None, key: str, said: set[str]
) -> Iterator[Predicted]:
    labels = classifier.classes_.tolist()
    for place, answer in enumerate(_rows(classifier, chunk, least, key, said)):
        name = chunk.numbers[place]
        named = None if chunk.ids is None else chunk.ids[place]
        if isinstance(answer, str):
            yield Predicted(name, [], answer, named)
            continue
        row, unsure = answer
        true = None if chunk.y is None else chunk.y[place]
        yield Predicted(name, _guesses(row, labels, top), None, named, true, chunk.done, unsure)


def _rows(
    classifier: OnlineClassifier, chunk: Chunk, least: float | None, key: str, said: set[str]
) -> Iterator[tuple[NDArray[np.float64], bool] | str]:
    """The probabilities of each sample and whether they are too low. Where a chunk is refused, its samples are asked about
    one by one."""
    try:
        yield from _asked(classifier, chunk.x, least, said)
        return
    except MnemonError:
        pass
    for place, number in enumerate(chunk.numbers):
        try:
            yield from _asked(classifier, chunk.x[place : place + 1], least, said)
        except MnemonError as error:
            yield f"{key} {number:,}: {error}"


def _asked(
    classifier: OnlineClassifier, x: Any, least: float | None, said: set[str] | None = None
) -> Iterator[tuple[NDArray[np.float64], bool]]:
    """The probabilities of each sample, and whether it is unsure. `said`: warnings that are not to be given again."""
    said = set() if said is None else said
    found: dict[str, None] = {}
    with heard(lambda sentence: found.update({sentence: None})):
        rows, unsure = asking.probabilities(classifier, x), asking.unsure(classifier, x, least)
    for sentence in found.keys() - said:
        logger.warning(sentence)
    said.update(found)
    return zip(rows, unsure.tolist(), strict=True)


def _guesses(row: NDArray[np.float64], labels: list[Label], top: int) -> list[Guess]:
    order = np.argsort(-row, kind="stable")[:top]
    return [Guess(labels[i], float(row[i])) for i in order]


def _check_top(top: int) -> None:
    if top < 1:
        raise MnemonError(f"top is how many labels to show, 1 or more, not {top}.")


def _read(model: ImageModel, path: Path) -> ImageArray | MnemonError:
    if not path.is_file():
        return MnemonError(f"there is no file {path}.")
    try:
        return model.read(path)
    except MnemonError as error:
        return error
