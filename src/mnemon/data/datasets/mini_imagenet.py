"""miniImageNet from a local copy: images/ with three csv files, or a folder per class."""

from __future__ import annotations

import csv
from pathlib import Path

from mnemon.data.canonical import Content, place_in_class
from mnemon.data.definition import Definition, Rules
from mnemon.data.folders import Classes, class_files, files_of, labels_of
from mnemon.data.images import read_images
from mnemon.errors import MnemonError
from mnemon.runtime.progress import Progress

SIZE = 84
LISTS = ("train.csv", "val.csv", "test.csv")  # the meta-learning splits; here their classes are merged, in this order


def read(path: Path, progress: Progress) -> Content:
    """The dataset: of each class the first 80 % of the files are train, the rest test."""
    listed = (path / "images").is_dir() and any((path / name).is_file() for name in LISTS)
    classes = _listed_files(path) if listed else class_files(path, at_least=2)
    y = labels_of(classes)
    counts = {label: len(files) for label, files in enumerate(classes.values())}
    # Cut in file order, as the papers do, and only then forget that order.
    cut = [counts[label] * 4 // 5 for label in y.tolist()]
    train = place_in_class(y) < cut
    x = read_images(files_of(classes), SIZE, progress, text="decode mini_imagenet")
    return Content(x[train], y[train], x[~train], y[~train], tuple(classes))


def _listed_files(path: Path) -> Classes:
    """Classes in order of first appearance, files in the order of the lists."""
    classes: dict[str, list[Path]] = {}
    for name in LISTS:
        for filename, label in _rows(path / name):
            parts = Path(filename)
            if parts.is_absolute() or ".." in parts.parts:
                raise MnemonError(f"{path / name} names {filename!r}, which is outside its images folder.")
            classes.setdefault(label, []).append(path / "images" / parts)
    for label, files in classes.items():
        if len(files) < 2:
            raise MnemonError(f"class {label!r} has {len(files)} image in {path}; a class needs 2 or more.")
    if len(classes) < 2:
        raise MnemonError(f"the lists in {path} name {len(classes)} classes; at least 2 are needed.")
    return classes


def _rows(path: Path) -> list[tuple[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [(row["filename"], row["label"]) for row in csv.DictReader(file, strict=True)]
        if not all(filename and label for filename, label in rows):  # a row too short
            raise KeyError("label")
        return rows
    except (OSError, UnicodeDecodeError) as error:
        raise MnemonError(f"{path} cannot be read ({error}); miniImageNet needs {', '.join(LISTS)}.") from error
    except (KeyError, csv.Error) as error:
        raise MnemonError(f"{path} is not a csv file with the columns filename and label.") from error


MINI_IMAGENET = Definition(
    name="mini_imagenet",
    title="miniImageNet",
    description="photographs of 100 things, 600 each (import only)",
    licence="Vinyals et al. 2016, Matching Networks for One Shot Learning; ImageNet's terms (research only)",
    classes=None,
    class_count=100,
    train=48000,
    test=12000,
    shape=(3, SIZE, SIZE),
    # Of images/ with its three lists, as Pillow decodes them. People resize the images differently, so other copies exist.
    checksum="2cd083a71e6da907a117f9ad9f082ed390bca8554d2b949e859725b8d02fecb4",
    copies_differ=True,
    by_hand="https://image-net.org (ILSVRC 2012), as images/ with train.csv, val.csv and test.csv "
    "or as a folder per class",
    rules=Rules(tasks=(10, 20), smooth=400),
    read=read,
)
