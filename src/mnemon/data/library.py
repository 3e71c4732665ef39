"""The public functions of this package: get, import, load, check and list datasets."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mnemon.data import folders, store
from mnemon.data.canonical import Content, canonical, checksum
from mnemon.data.dataset import Dataset, Images, Info
from mnemon.data.datasets import definitions, repair_hint
from mnemon.data.definition import Definition
from mnemon.data.fetch import first_that_answers
from mnemon.data.images import check_size, read_image, read_images
from mnemon.errors import MnemonError, unknown
from mnemon.runtime.progress import Progress

if TYPE_CHECKING:
    import torch  # heavy: loaded with the first dataset, not with the names and rules of all of them

logger = logging.getLogger(__name__)
RGB = 127.5  # mean and deviation of imported images: pixels 0..255 to [-1, 1]


def names() -> tuple[str, ...]:
    """The datasets known here: the defined ones, then the imported ones in the cache."""
    known = definitions()
    return (*known, *(name for name in store.stored() if name not in known))


def load(name: str, *, fetch: bool = True) -> Dataset:
    """A dataset from the cache, verified; when it is not there and `fetch`, it is downloaded first."""
    known = _known(name)
    if known and known.bundled:
        content, _ = known.bundled()
        return _dataset(name, content, _metadata(content, known.by_hand, known))
    metadata = store.read_metadata(name)
    if metadata is None:
        if not fetch:
            raise MnemonError(f"{name} is not here; bring it in with {repair_hint(name)}.")
        get(name)
        metadata = store.read_metadata(name)
        assert metadata is not None  # it was just written
    if known and known.classes and known.checksum and not known.copies_differ:
        # What we know is not left to what a JSON file says.
        metadata = replace(metadata, classes=known.classes, mean=known.mean, std=known.std, checksum=known.checksum)
    content = store.read(name, expected=metadata.checksum)
    if int(content.y_train.max()) + 1 != len(metadata.classes):
        raise MnemonError(
            f"{store.metadata_file(name)} was altered: its classes do not fit; repair it with {repair_hint(name)}."
        )
    return _dataset(name, content, metadata)


def stamp(name: str) -> tuple[object, ...] | None:
    """Changes when another dataset is stored under the name, or in another cache; downloaded first when it is not here."""
    known = _known(name)
    if known and known.bundled:
        return None
    if store.stamp(name) is None:
        get(name)
    return store.stamp(name)


def get(name: str, *, quiet: bool = False) -> Path:
    """Download a dataset, verify it, store it in the cache; returns the stored file."""
    known = _known(name)
    if known and known.bundled:
        return known.bundled()[1]
    if known is None or known.sources is None:
        hint = f" (from {known.by_hand})" if known else ""
        raise MnemonError(f"{name} cannot be downloaded; run `mnemon data import {name} PATH` on a local copy{hint}.")
    progress = Progress(quiet=quiet)
    content, source = first_that_answers(name, known.by_hand, known.sources(progress))
    return _store(known, content, source, progress)


def import_(name: str, path: str | os.PathLike[str], *, size: int | None = None, quiet: bool = False) -> Path:
    """Store a dataset from a local copy: of a defined one, or any folder of class folders under a new name."""
    source, known, progress = Path(path), definitions().get(name), Progress(quiet=quiet)
    if known and not known.read:
        raise MnemonError(f"{name} is built in; there is nothing to import.")
    if not store.NAME.fullmatch(name):
        raise MnemonError(f"{name!r} cannot name a dataset: use small letters, digits and _, a letter first.")
    if known and size not in (None, known.shape[1]):
        raise MnemonError(f"{name} has its own image size; --size is for your own image folders.")
    if not source.exists():
        raise MnemonError(f"{source} does not exist.")
    try:
        if known and known.read:
            return _store(known, known.read(source, progress), str(source), progress)
        content = folders.read_folder(source, size, progress)
        return _write(name, content, _metadata(content, str(source)))
    except OSError as error:
        raise MnemonError(f"cannot read {error.filename or source}: {error.strerror or error}.") from error


def check(name: str) -> str:
    """Verify the stored copy of a dataset and return its checksum."""
    return load(name, fetch=False).checksum


def listing() -> list[Info]:
    """Every dataset known here, without reading its images."""
    return [_info(name) for name in names()]


def folder(path: str | os.PathLike[str], *, size: int | None) -> Images:
    """The images of a folder with a sub-folder per class, uncut and not stored."""
    import torch

    check_size(size)
    root = Path(path)
    if not root.is_dir():
        raise MnemonError(f"{root} is not a folder.")
    classes = folders.class_files(root, classes_at_least=1)  # one is enough to be tested on
    files = folders.files_of(classes)
    x = torch.from_numpy(read_images(files, size))
    return Images(x, torch.from_numpy(folders.labels_of(classes)), tuple(classes), tuple(files))


def image(path: str | os.PathLike[str], *, size: int | None) -> torch.Tensor:
    """One image file as uint8 [3, height, width], brought to `size` the way `folder` does."""
    import torch

    check_size(size)
    return torch.from_numpy(read_image(Path(path), size))


def _known(name: str) -> Definition | None:
    """The definition of a dataset; None for an imported one."""
    # A name counts as known when its JSON is there, even if the JSON is damaged: the reader then says so.
    if name not in definitions() and name not in store.stored():
        raise unknown("dataset", name, names())
    return definitions().get(name)


def _metadata(content: Content, source: str, known: Definition | None = None) -> store.Metadata:
    """What is stored beside the arrays. Content that is not what its definition says is refused."""
    metadata = store.Metadata(
        classes=known.classes if known and known.classes else content.classes,
        mean=known.mean if known else RGB,
        std=known.std if known else RGB,
        train=len(content.y_train),
        test=len(content.y_test),
        shape=content.x_train.shape[1:],
        checksum=checksum(content),
        source=source,
    )
    if known and not known.copies_differ and known.checksum not in (None, metadata.checksum):
        raise MnemonError(
            f"{source} does not hold {known.name} as published: expected content SHA-256 {known.checksum}, "
            f"found {metadata.checksum}; nothing was stored."
        )
    return metadata


def _store(known: Definition, content: Content, source: str, progress: Progress) -> Path:
    with progress.stage(f"order and verify {known.name}"):
        content = canonical(content)
        metadata = _metadata(content, source, known)
    path = _write(known.name, content, metadata)
    if known.checksum not in (None, metadata.checksum):
        logger.warning(
            f"{source} is not the reference copy of {known.title} (its content SHA-256 is {metadata.checksum}, the reference's "
            f"{known.checksum}): it is stored and can be used, but its images differ, and so will results."
        )
    return path


def _write(name: str, content: Content, metadata: store.Metadata) -> Path:
    """Store a dataset, and say so where other content had its name."""
    try:
        before = store.read_metadata(name)
    except MnemonError:  # a damaged one is repaired
        before = None
    path = store.write(name, content, metadata)
    if before is not None and before.checksum != metadata.checksum:
        logger.warning(
            f"{name} was replaced: its content SHA-256 was {before.checksum} (from {before.source}) and is "
            f"{metadata.checksum}; records of the old images stay, and runs on the new ones are other runs."
        )
    return path


def _dataset(name: str, content: Content, metadata: store.Metadata) -> Dataset:
    import torch

    return Dataset(
        name=name,
        x_train=torch.from_numpy(content.x_train),
        y_train=torch.from_numpy(content.y_train),
        x_test=torch.from_numpy(content.x_test),
        y_test=torch.from_numpy(content.y_test),
        classes=metadata.classes,
        mean=metadata.mean,
        std=metadata.std,
        checksum=metadata.checksum,
    )


def _info(name: str) -> Info:
    known = definitions().get(name)
    bundled = known is not None and known.bundled is not None
    try:
        metadata = store.read_metadata(name)
        state = "not here" if metadata is None else "ready" if store.data_file(name).is_file() else "damaged"
    except MnemonError:
        metadata, state = None, "damaged"
    if bundled:
        state = "built in"
    return Info(
        name=name,
        description=known.description if known else "imported images",
        classes=len(metadata.classes) if metadata else known.class_count if known else 0,
        train=metadata.train if metadata else known.train if known else 0,
        test=metadata.test if metadata else known.test if known else 0,
        shape=metadata.shape if metadata else known.shape if known else (),
        state=state,
        path=None if bundled or state == "not here" else store.data_file(name),
        licence=known.licence if known else "your own images",
    )
