"""Writing files so that a reader never sees half of one, and reading JSON that anybody may have written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError


def replace(path: Path, fill: Callable[[Path], object], *, part_name: str = "", mode: int = 0o666) -> None:
    """Let `fill` write a file beside `path`, flush it to the disk and move it into place: all of it, or nothing.

    The unique name lets two processes do so at once. It begins with that of the file; with `part_name` where another program
    would take the unfinished file for the whole one by its name. `mode` is what others may do, less the user's umask.
    """
    part = path.with_name(f".{part_name or path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        part.touch(mode, exist_ok=False)
        allowed = part.stat().st_mode  # the user's; safetensors makes a file for its writer alone
        fill(part)
        part.chmod(allowed)
        flush(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    flush(path.parent)


def write(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """`replace` with these bytes."""
    replace(path, lambda part: part.write_bytes(content), mode=mode)


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Within, an OSError becomes one sentence: `what`, and the reason."""
    try:
        yield
    except OSError as error:
        raise MnemonError(f"{what} ({error.strerror}).") from None


def parsed(content: bytes | str, **options: Any) -> Any:
    """What a JSON text holds; whatever is wrong with it is a ValueError."""
    try:
        return json.loads(content, **options)
    except RecursionError:
        raise ValueError("its values are nested too deep") from None


def flush(path: Path) -> None:
    """To the disk: what is in a file, or the names in a folder."""
    folder = path.is_dir()
    if folder and os.name == "nt":  # Windows cannot open a folder; there a rename is durable enough
        return
    handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not (folder and error.errno == errno.EINVAL):  # some shared folders of virtual machines flush files only
            raise
    finally:
        os.close(handle)


def is_clutter(name: str) -> bool:
    """Whether no user put the file there: hidden ones, and what file managers leave in the folders they show."""
    return name.startswith(".") or name.lower() in ("thumbs.db", "desktop.ini")
