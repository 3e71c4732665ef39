"""Images with labels: a folder with a sub-folder per class, which may be watched, and tar files of image and label.

A folder is read again and again: what a system tells of changes can be lost, what lies there cannot. An image is known by
its class, its name and its bytes, as in `mnemon fit`; a member of a tar file by its number, and the file by its members.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import lzma
import os
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from mnemon.data.images import EXTENSIONS, is_image
from mnemon.errors import MnemonError
from mnemon.files import is_clutter, parsed
from mnemon.sources.row import BadRow, Read, Row

logger = logging.getLogger(__name__)
SETTLED = 1.0  # seconds without a change, after which a file is taken for whole
LABELS = (".cls", ".txt", ".json")  # members of a tar file that hold the label of the image before or behind them
LONGEST_LABEL, LARGEST = 2**20, 64 * 2**20  # bytes

Pixels = Callable[[BinaryIO, str], Any]  # an image [height, width, channels] of bytes that errors call so


class Pictures:
    """A folder of class folders. `known` says whether an image was learned before."""

    def __init__(self, folder: Path, pixels: Pixels, known: Callable[[bytes], bool], *, follow: bool = False) -> None:
        self._folder, self._pixels, self._known, self._follow = folder, pixels, known, follow
        self._seen: dict[Path, tuple[int, int]] = {}  # size and time of files that are done with

    @property
    def name(self) -> None:
        return None  # the images have keys

    def rows(self, after: int) -> Iterator[Read]:
        if not self._folder.is_dir():
            raise MnemonError(f"there is no folder {self._folder}.")
        while True:
            waits = False
            for label, path in self._files():
                try:
                    about = path.stat()
                except OSError:
                    continue  # it went away
                state = (about.st_size, about.st_mtime_ns)
                if self._seen.get(path) == state:
                    continue
                if self._follow and abs(time.time() - about.st_mtime) < SETTLED:
                    waits = True  # it may still be written; a time to come is that of a camera, copied with the file
                    continue
                row = self._row(label, path)
                self._seen[path] = state
                if row is not None:
                    yield row
            if not self._follow:
                return
            yield None
            time.sleep(SETTLED / 4 if waits else SETTLED)

    def _files(self) -> Iterator[tuple[str, Path]]:
        try:
            folders = sorted(self._folder.iterdir())
        except OSError as error:  # it may go away while it is watched
            raise MnemonError(f"the folder {self._folder} cannot be read ({error.strerror}).") from None
        for folder in folders:
            if folder.is_dir() and not is_clutter(folder.name):
                for root, _, names in sorted(os.walk(folder)):
                    yield from ((folder.name, Path(root, name)) for name in sorted(names) if is_image(Path(root, name)))

    def _row(self, label: str, path: Path) -> Row | BadRow | None:
        name = path.relative_to(self._folder / label).as_posix()
        try:
            content = path.read_bytes()
            found = hashlib.blake2b(os.fsencode(label) + b"/" + os.fsencode(name) + b"\0", digest_size=16)
            found.update(content)
            if self._known(found.digest()):
                return None
            return Row(0, str(path), self._pixels(io.BytesIO(content), "it"), label, found.digest())
        except OSError as error:
            return BadRow(0, str(path), f"it cannot be read ({error.strerror}).")
        except MnemonError as error:
            return BadRow(0, str(path), str(error))


class Tar:
    """A shard as webdataset has it: NAME.png beside NAME.cls (the label as text) or NAME.json ({"label": …})."""

    def __init__(self, path: Path, pixels: Pixels, count: Callable[[str], int | None] = lambda name: None) -> None:
        """`count` is the last number of a producer."""
        self._path, self._pixels, self._count = path, pixels, count

    @property
    def name(self) -> str:
        return self._identity[0]

    @cached_property
    def _identity(self) -> tuple[str, int]:
        """A name of all members, and the last member that was read of this file, whatever it was called then. A file to which
        members were added begins with those it had: their name is the one by which it was known."""
        digest, name, known = hashlib.sha256(), "tar:", 0
        with self._opened() as tar:
            for member in tar:
                digest.update(f"{len(os.fsencode(member.name))} {member.size} ".encode() + os.fsencode(member.name))
                file = tar.extractfile(member) if member.isreg() else None
                while file is not None and (part := file.read(1 << 20)):
                    digest.update(part)
                name = f"tar:{digest.hexdigest()}"
                known = self._count(name) or known
            before = f"tar:{self._path.name}:{self._path.stat().st_size}"  # until mnemon looked at the content
        if not known and (known := self._count(before) or 0):
            logger.warning(
                f"{self._path} is taken for the file of this name and size of which {known:,} members were read by an older "
                "version, which did not look at the content; if it is another file, give it another name."
            )
        return name, known

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tarfile.TarFile]:
        """To be read once, from front to back."""
        try:
            with tarfile.open(self._path, "r|*") as tar:
                yield tar
        except (OSError, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise MnemonError(f"{self._path} is not a readable tar file ({error}).") from None

    def rows(self, after: int) -> Iterator[Read]:
        after = max(after, self._identity[1])
        with self._opened() as tar:
            stem, parts, number = "", dict[str, bytes](), 0
            for number, member in enumerate(tar, 1):
                path = PurePosixPath(member.name)
                suffix = path.suffix.lower()
                if not member.isreg() or (suffix not in EXTENSIONS and suffix not in LABELS):
                    continue
                if str(path.with_suffix("")) != stem:
                    yield from self._row(number - 1, stem, parts, after)
                    stem, parts = str(path.with_suffix("")), {}
                if number > after and member.size <= (LONGEST_LABEL if suffix in LABELS else LARGEST):
                    file = tar.extractfile(member)
                    parts[suffix] = b"" if file is None else file.read()
            yield from self._row(number, stem, parts, after)

    def _row(self, number: int, stem: str, parts: dict[str, bytes], after: int) -> Iterator[Read]:
        """The sample that ends with member `number`, if there is one that was not read before."""
        if number <= after or not parts:
            return
        where = f"{self._path}, {stem}"
        image = next((suffix for suffix in parts if suffix in EXTENSIONS), None)
        text = next((suffix for suffix in LABELS if suffix in parts), None)
        if image is None or text is None:
            missing = "image" if image is None else "label (.cls, .txt or .json)"
            yield BadRow(number, where, f"there is no {missing}.")
            return
        try:
            label = _label(parts[text], text)
            yield Row(number, where, self._pixels(io.BytesIO(parts[image]), "it"), label)
        except (MnemonError, ValueError, RecursionError) as error:
            yield BadRow(number, where, str(error))


def _label(content: bytes, suffix: str) -> Any:
    if suffix != ".json":
        return content.decode().strip()
    found = parsed(content)
    if isinstance(found, dict):
        found = next((found[name] for name in ("label", "cls", "class") if name in found), None)
    if type(found) not in (str, int, bool):
        raise MnemonError("its JSON holds no label.")
    return found
