"""The cache: one folder a dataset, written whole or not at all, verified at every read.

<cache>/<name>/<name>.safetensors   the four arrays
<cache>/<name>/<name>.json          classes, normalisation, counts, source and checksum; written last, so a dataset
                                    whose JSON is there was once whole
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from mnemon import files
from mnemon.data.canonical import Content, checksum
from mnemon.data.datasets import repair_hint
from mnemon.errors import MnemonError
from mnemon.runtime.cache_folder import cache_dir

LAYOUT = 1  # raised when the stored files change meaning
NAME = re.compile(r"[a-z][a-z0-9_]*")
ARRAYS = {"x_train": (np.uint8, 4), "y_train": (np.int64, 1), "x_test": (np.uint8, 4), "y_test": (np.int64, 1)}


@dataclass(frozen=True)
class Metadata:
    """What the JSON says about the arrays beside it."""

    classes: tuple[str, ...]
    mean: float
    std: float
    train: int
    test: int
    shape: tuple[int, ...]  # channels, height, width
    checksum: str
    source: str


def data_file(name: str) -> Path:
    return cache_dir() / name / f"{name}.safetensors"


def metadata_file(name: str) -> Path:
    return cache_dir() / name / f"{name}.json"


def stored() -> tuple[str, ...]:
    """The names in the cache whose JSON is there."""
    try:
        folders = sorted(folder.name for folder in cache_dir().iterdir())
    except OSError:  # no cache yet
        return ()
    return tuple(name for name in folders if NAME.fullmatch(name) and metadata_file(name).is_file())


def stamp(name: str) -> tuple[str, int, int, int] | None:
    """What tells a stored dataset from those that were or will be stored under its name; None when none is there."""
    path = metadata_file(name)
    try:
        about = path.stat()
    except OSError:
        return None
    return str(path), about.st_ino, about.st_mtime_ns, about.st_size


def write(name: str, content: Content, metadata: Metadata) -> Path:
    """Store a dataset; an interruption leaves what was there before, or nothing. Of two processes the later one's is kept."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {key: np.ascontiguousarray(getattr(content, key)) for key in ARRAYS}
    text = json.dumps({"version": LAYOUT, "name": name, **asdict(metadata)}, indent=1) + "\n"
    path, metadata_path = data_file(name), metadata_file(name)

    def fill(part: Path) -> None:
        save_file(arrays, part)
        files.flush(part)  # a full disk shows here at the latest
        metadata_path.unlink(missing_ok=True)  # the old metadata must not stand beside the new arrays

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / ".lock"):
            files.replace(path, fill)
            files.replace(metadata_path, lambda part: part.write_text(text, encoding="utf-8"))
    except (OSError, SafetensorError) as error:
        raise MnemonError(
            f"cannot write {path}: {error}; set MNEMON_DATA to a folder that can be written and has room."
        ) from error
    return path


def pack(name: str) -> tuple[bytes, bytes] | None:
    """The files of a stored dataset, for another machine; None when it is not in the cache."""
    if not metadata_file(name).is_file():
        return None
    try:
        return data_file(name).read_bytes(), metadata_file(name).read_bytes()
    except OSError as error:
        raise MnemonError(f"{name} cannot be read ({error.strerror}); repair it with {repair_hint(name)}.") from None


def unpack(name: str, arrays: bytes, metadata: bytes) -> None:
    """Store a dataset that another machine has packed, unless it is here by now; `read` verifies it."""
    path = data_file(name)
    with files.explained(f"cannot write {path}; set MNEMON_DATA to a folder that can be written and has room"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.parent / ".lock"):
            if not metadata_file(name).is_file():
                files.write(path, arrays)
                files.write(metadata_file(name), metadata)


def read_metadata(name: str) -> Metadata | None:
    """What is known of a stored dataset, unverified; None when it is not in the cache."""
    path = metadata_file(name)
    try:
        fields: dict[str, Any] = files.parsed(path.read_text(encoding="utf-8"))
        if fields["version"] != LAYOUT:
            raise ValueError("version")
        return Metadata(
            classes=tuple(str(label) for label in fields["classes"]),
            mean=float(fields["mean"]),
            std=float(fields["std"]),
            train=int(fields["train"]),
            test=int(fields["test"]),
            shape=tuple(int(size) for size in fields["shape"]),
            checksum=str(fields["checksum"]),
            source=str(fields["source"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MnemonError(f"{path} is damaged or of another version; repair it with {repair_hint(name)}.") from error


def read(name: str, *, expected: str) -> Content:
    """The stored arrays, if their checksum is `expected`."""
    path = data_file(name)
    content = _read_arrays(path, name, expected)
    found = checksum(content)
    if found != expected:
        raise MnemonError(
            f"{path} was altered: expected content SHA-256 {expected}, found {found}; repair it with {repair_hint(name)}."
        )
    return content


def _read_arrays(path: Path, name: str, expected: str) -> Content:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
    except FileNotFoundError as error:
        raise MnemonError(f"{path} is missing; repair it with {repair_hint(name)}.") from error
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise MnemonError(
            f"{path} cannot be read, it is truncated or damaged: expected content SHA-256 {expected}, "
            f"found {path.stat().st_size} unreadable bytes; repair it with {repair_hint(name)}."
        ) from error
    fits = arrays.keys() == ARRAYS.keys() and all(
        arrays[key].dtype == dtype and arrays[key].ndim == ndim for key, (dtype, ndim) in ARRAYS.items()
    )
    if not fits:
        raise MnemonError(
            f"{path} was altered: expected content SHA-256 {expected}, found other arrays; repair it with {repair_hint(name)}."
        )
    return Content(arrays["x_train"], arrays["y_train"], arrays["x_test"], arrays["y_test"])
