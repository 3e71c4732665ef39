"""The public functions of this room: get, import, load, check and list datasets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch

from mnemon.data import cifar, digits, folders, mini_imagenet, mnist, store
from mnemon.data.canonical import Content, canonical, checksum
from mnemon.data.catalogue import BUILT_IN, RGB_MEAN, RGB_STD, mend
from mnemon.data.dataset import Dataset, Images, Info
from mnemon.data.images import check_size, read_image, read_images
from mnemon.data.progress import SILENT, Report
from mnemon.errors import MnemonError, unknown

LAYOUTS = {layout.name: layout for layout in (cifar.CIFAR10, cifar.CIFAR100)}


def names() -> tuple[str, ...]:
    """The datasets known here: the built-in ones, then the imported ones in the cache."""
    return (*BUILT_IN, *(name for name in store.stored() if name not in BUILT_IN))


def load(name: str, *, fetch: bool = True) -> Dataset:
    """A dataset from the cache, verified; when it is not there and `fetch`, it is downloaded first."""
    _known(name)
    if name == "digits":
        content = digits.read()
        return _dataset(name, content, _true_card(name, content, "scikit-learn"))
    card = store.read_card(name)
    if card is None:
        if not fetch:
            raise MnemonError(f"{name} is not here; bring it in with {mend(name)}.")
        get(name)
        card = store.read_card(name)
        assert card is not None  # it was just written
    entry = BUILT_IN.get(name)
    if entry and entry.classes and entry.checksum:  # what we know is not left to what a JSON file says
        card = replace(card, classes=entry.classes, mean=entry.mean, std=entry.std, checksum=entry.checksum)
    content = store.read(name, expected=card.checksum)
    if int(content.y_train.max()) + 1 != len(card.classes):
        raise MnemonError(f"{store.card_file(name)} was altered: its classes do not fit; mend it with {mend(name)}.")
    return _dataset(name, content, card)


def edition(name: str) -> tuple[object, ...] | None:
    """Changes when another dataset is stored under the name, or in another cache; downloaded first when it is not here."""
    if name == "digits":
        return None
    if store.edition(name) is None:
        get(name)
    return store.edition(name)


def get(name: str, *, quiet: bool = False) -> Path:
    """Download a dataset, verify it, store it in the cache; returns the stored file."""
    _known(name)
    report = Report(quiet=quiet)
    if name == "digits":
        return digits.path()
    if name == "mnist":
        content, source = mnist.get(report)
    elif name in LAYOUTS:
        content, source = cifar.get(LAYOUTS[name], report)
    else:
        hint = f" (from {BUILT_IN[name].by_hand})" if name in BUILT_IN else ""
        raise MnemonError(f"{name} cannot be downloaded; run `mnemon data import {name} PATH` on a local copy{hint}.")
    return _store_pinned(name, content, source, report)


def import_(name: str, path: str | os.PathLike[str], *, size: int | None = None, quiet: bool = False) -> Path:
    """Store a dataset from a local copy: of a built-in one, or any folder of class folders under a new name."""
    source = Path(path)
    if name == "digits":
        raise MnemonError("digits is built in; there is nothing to import.")
    if not store.NAME.fullmatch(name):
        raise MnemonError(f"{name!r} cannot name a dataset: use small letters, digits and _, a letter first.")
    if name in BUILT_IN and size not in (None, BUILT_IN[name].shape[1]):
        raise MnemonError(f"{name} has its own image size; --size is for your own image folders.")
    if not source.exists():
        raise MnemonError(f"{source} does not exist.")
    try:
        return _import(name, source, size, Report(quiet=quiet))
    except OSError as error:
        raise MnemonError(f"cannot read {error.filename or source}: {error.strerror or error}.") from error


def _import(name: str, source: Path, size: int | None, report: Report) -> Path:
    if name == "mnist":
        return _store_pinned(name, mnist.read(source), str(source), report)
    if name in LAYOUTS:
        return _store_pinned(name, cifar.read(LAYOUTS[name], source), str(source), report)
    if name == "mini_imagenet":
        content, classes = mini_imagenet.read(source, report)
    else:
        content, classes = folders.read_folder(source, size, report)
    return store.write(name, content, _card(content, str(source), classes, RGB_MEAN, RGB_STD))


def check(name: str) -> str:
    """Verify the stored copy of a dataset and return its checksum."""
    return load(name, fetch=False).checksum


def listing() -> list[Info]:
    """Every dataset known here, without reading its images."""
    return [_info(name) for name in names()]


def folder(path: str | os.PathLike[str], *, size: int | None) -> Images:
    """The images of a folder with a sub-folder per class, uncut and not stored."""
    check_size(size)
    root = Path(path)
    if not root.is_dir():
        raise MnemonError(f"{root} is not a folder.")
    classes = folders.class_files(root, classes_at_least=1)  # one is enough to be tested on
    files = folders.files_of(classes)
    x = torch.from_numpy(read_images(files, size, SILENT))
    return Images(x, torch.from_numpy(folders.labels_of(classes)), tuple(classes), tuple(files))


def image(path: str | os.PathLike[str], *, size: int | None) -> torch.Tensor:
    """One image file as uint8 [3, height, width], brought to `size` the way `folder` does."""
    check_size(size)
    return torch.from_numpy(read_image(Path(path), size))


def _known(name: str) -> None:
    # A name counts as known when its JSON is there, even if the JSON is damaged: the reader then says so.
    if name not in BUILT_IN and name not in store.stored():
        raise unknown("dataset", name, names())


def _card(content: Content, source: str, classes: tuple[str, ...], mean: float, std: float) -> store.Card:
    return store.Card(
        classes=classes,
        mean=mean,
        std=std,
        train=len(content.y_train),
        test=len(content.y_test),
        shape=content.x_train.shape[1:],
        checksum=checksum(content),
        source=source,
    )


def _true_card(name: str, content: Content, source: str) -> store.Card:
    """The card of a pinned dataset, if the content is what the name says."""
    entry = BUILT_IN[name]
    assert entry.classes is not None  # only mini_imagenet has none, and it is not pinned
    card = _card(content, source, entry.classes, entry.mean, entry.std)
    if card.checksum != entry.checksum:
        raise MnemonError(
            f"{source} does not hold {name} as published: expected content SHA-256 {entry.checksum}, "
            f"found {card.checksum}; nothing was stored."
        )
    return card


def _store_pinned(name: str, content: Content, source: str, report: Report) -> Path:
    with report.stage(f"order and verify {name}"):
        content = canonical(content)
        card = _true_card(name, content, source)
    return store.write(name, content, card)


def _dataset(name: str, content: Content, card: store.Card) -> Dataset:
    return Dataset(
        name=name,
        x_train=torch.from_numpy(content.x_train),
        y_train=torch.from_numpy(content.y_train),
        x_test=torch.from_numpy(content.x_test),
        y_test=torch.from_numpy(content.y_test),
        classes=card.classes,
        mean=card.mean,
        std=card.std,
        checksum=card.checksum,
    )


def _info(name: str) -> Info:
    entry = BUILT_IN.get(name)
    path: Path | None = None if name == "digits" else store.data_file(name)
    try:
        card = store.read_card(name)
        state = "not here" if card is None else "ready" if store.data_file(name).is_file() else "damaged"
    except MnemonError:
        card, state = None, "damaged"
    if name == "digits":
        state = "built in"
    return Info(
        name=name,
        description=entry.description if entry else "imported images",
        classes=len(card.classes) if card else entry.class_count if entry else 0,
        train=card.train if card else entry.train if entry else 0,
        test=card.test if card else entry.test if entry else 0,
        shape=card.shape if card else entry.shape if entry else (),
        state=state,
        path=None if state == "not here" else path,
        licence=entry.licence if entry else "your own images",
    )
