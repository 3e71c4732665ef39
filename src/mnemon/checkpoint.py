"""Checkpoints that are never half-written: safetensors and JSON, checksummed, the previous one kept.

A checkpoint NUMBER in a folder is NUMBER.safetensors (the tensors) and NUMBER.json (the values, the SHA-256 of the tensor
file and one of its own content). Each file is written under another name, flushed to the disk and renamed; the JSON comes
last, so it exists only when the tensors do. Nothing in either file can run code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
from filelock import FileLock, Timeout
from torch import Tensor

from mnemon import files
from mnemon.errors import MnemonError

logger = logging.getLogger(__name__)
FORMAT = 2
KEPT = 2
MOST_VALUES = 64 * 2**20  # bytes of the JSON file
MOST_TENSORS = 16 * 2**30  # bytes of the tensor file

# Of each tensor, the name of its type (as safetensors has it) and its shape.
Shapes = dict[str, tuple[str, tuple[int, ...]]]


class Checkpoint(NamedTuple):
    number: int
    tensors: dict[str, Tensor]
    values: dict[str, Any]


class Packed(NamedTuple):
    """The files of a checkpoint as bytes."""

    number: int
    tensors: bytes
    values: bytes


def save(folder: Path, number: int, tensors: dict[str, Tensor], values: dict[str, Any], *, mode: int = 0o666) -> None:
    """Write checkpoint `number`, then drop all but this one and the one before it. `mode` is that of its files, less the umask.

    Higher numbers are dropped too: who saves a lower one found them damaged.
    """
    blob = safetensors.torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    body = {"format": FORMAT, "number": number, "tensors": _sha(blob), "values": values}
    text = json.dumps(body | {"sha256": _sha(_canonical(body))}, allow_nan=False).encode()
    for what, size, most in (("values", len(text), MOST_VALUES), ("tensors", len(blob), MOST_TENSORS)):
        if size > most:  # `load` would refuse it, and by then the one before is gone
            raise MnemonError(
                f"the checkpoint {folder / f'{number:010d}'} would hold {size:,} bytes of {what}, and {most:,} are the "
                "limit; nothing was written."
            )
    _write(folder, number, blob, text, mode)


def pack(folder: Path) -> Packed | None:
    """The files of the newest whole checkpoint, for another machine; None if there is none."""
    found = load(folder)
    if found is None:
        return None
    tensors, values = (folder / f"{found.number:010d}.{suffix}" for suffix in ("safetensors", "json"))
    return Packed(found.number, tensors.read_bytes(), values.read_bytes())


def unpack(folder: Path, packed: Packed) -> None:
    """Write a checkpoint that another machine has packed, as `save` does; `load` verifies it."""
    _write(folder, *packed)


def _write(folder: Path, number: int, blob: bytes, text: bytes, mode: int = 0o666) -> None:
    """Write the files of a checkpoint, then drop all but this one and the one before it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.write(folder / f"{number:010d}.safetensors", blob, mode=mode)
        files.write(folder / f"{number:010d}.json", text, mode=mode)
    except OSError as error:
        kept = "the one before it is untouched, and the same command continues from there."
        if newest(folder) == 0:
            kept = "it would have been the first, so nothing is saved."
        raise MnemonError(
            f"the checkpoint {folder / f'{number:010d}'} could not be written ({error.strerror}); {kept}"
        ) from error
    there = _numbers(folder)
    older = [n for n in there if n < number]
    left = [n for n in _numbers(folder, "safetensors") if n < number and n not in there]  # by a kill within `_remove`
    for other in [n for n in there if n > number] + older[KEPT - 1 :] + left:
        _remove(folder, other)


def load(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint; a damaged one is skipped with a warning. None if there is none.

    One of another version is no damaged one: to pass it over would be to discard what that version learned.
    """
    numbers = _numbers(folder)
    for number in numbers:
        try:
            return _read(folder, number)
        except MnemonError as error:
            raise MnemonError(
                f"the checkpoint {folder / f'{number:010d}'} is of another version of mnemon ({error}); go on with that "
                f"version, or remove {folder} to begin anew."
            ) from None
        except (OSError, ValueError, safetensors.SafetensorError) as error:
            last = number == numbers[-1]
            instead = "there is no other, starting from the beginning" if last else "falling back to the one before it"
            logger.warning(f"checkpoint {folder / f'{number:010d}'} is damaged ({error}); {instead}.")
    return None


@contextlib.contextmanager
def alone(folder: Path, name: str, timeout: float = -1) -> Iterator[None]:
    """Within, no other process holds the lock `name` of this folder, which is made if need be; after so many seconds
    (-1: never) a Timeout. A folder in which no checkpoint is at the end is left as it was found."""
    made = not folder.exists()
    lock = FileLock(folder / name, timeout=timeout)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise
    except OSError as error:
        raise MnemonError(f"the model cannot be written to {folder} ({error.strerror}).") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if newest(folder) == 0:
                # Before the release: a process that locks a file which was removed makes another one.
                (folder / name).unlink(missing_ok=True)
                if made:
                    folder.rmdir()
        lock.release()


def belongs(name: str) -> bool:
    """Whether a file of this name is part of a checkpoint, or of one that was being written."""
    return re.fullmatch(r"(\d{10})\.(json|safetensors)|\.\d{10}\..*\.part", name) is not None


def newest(folder: Path) -> int:
    """The number of the newest checkpoint, 0 if there is none."""
    return next(iter(_numbers(folder)), 0)


def before(folder: Path, number: int) -> int:
    """The number of the checkpoint before this one, 0 if there is none."""
    return next((n for n in _numbers(folder) if n < number), 0)


def read(folder: Path, number: int, check: Callable[[dict[str, Any], Shapes], None]) -> Checkpoint:
    """One checkpoint from an untrusted source: no links are followed, and `check` sees its values and what the tensors claim to
    be before any of them is read. Whatever is wrong is a ValueError or an OSError."""
    return _read(folder, number, check)


def _read(folder: Path, number: int, check: Callable[[dict[str, Any], Shapes], None] | None = None) -> Checkpoint:
    body = _json(_content(folder / f"{number:010d}.json", MOST_VALUES))
    if not isinstance(body, dict) or body.pop("sha256", None) != _sha(_canonical(body)):
        raise ValueError("its values do not match their checksum")
    if body.get("format") != FORMAT:
        # It may be whole: of a newer version.
        raise MnemonError(f"its format is {body.get('format')}, this version reads {FORMAT}")
    path = folder / f"{number:010d}.safetensors"
    if check is not None:
        check(body["values"], _shapes(path))
    blob = _content(path, MOST_TENSORS)
    if _sha(blob) != body["tensors"]:
        raise ValueError("its tensors do not match their checksum")
    return Checkpoint(number, safetensors.torch.load(blob), body["values"])


def _content(path: Path, most: int) -> bytes:
    """The bytes of a plain file of bounded size; a link, a pipe or a device is none."""
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode):
        raise ValueError(f"{path.name} is not a plain file")
    if about.st_size > most:
        raise ValueError(f"{path.name} has {about.st_size:,} bytes, and {most:,} are the limit")
    with path.open("rb") as file:
        return file.read(about.st_size)


def _json(content: bytes) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not a number")

    return files.parsed(content, parse_constant=refuse)


def _shapes(path: Path) -> Shapes:
    """What the tensor file says of its tensors; their data is not read. The library checks them against the file's size."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError(f"{path.name} is not a plain file")
    with safetensors.safe_open(path, framework="pt") as file:
        parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in parts.items()}


def _remove(folder: Path, number: int) -> None:
    """The JSON goes first: what is left can no longer be taken for a checkpoint."""
    (folder / f"{number:010d}.json").unlink(missing_ok=True)
    (folder / f"{number:010d}.safetensors").unlink(missing_ok=True)


def _numbers(folder: Path, suffix: str = "json") -> list[int]:
    """Numbers of the checkpoints in the folder, newest first; of their files with this suffix."""
    if not folder.is_dir():
        return []
    found = (re.fullmatch(rf"(\d{{10}})\.{suffix}", name) for name in os.listdir(folder))
    return sorted((int(match[1]) for match in found if match), reverse=True)


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _canonical(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, allow_nan=False).encode()
