"""What is measured once and kept beside the records, one JSON line for each measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from filelock import FileLock

from mnemon import files
from mnemon.errors import MnemonError

Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    """The lines of a file; none where there is no file."""
    try:
        lines = [files.parsed(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if all(isinstance(line, dict) for line in lines):
            return lines
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        pass
    raise MnemonError(f"{path} is not a file of JSON lines; repair or remove it.")


def add(path: Path, line: Line, same: tuple[str, ...]) -> None:
    """Add a line; it replaces an older one that agrees in the fields `same`."""
    with FileLock(path.with_suffix(".lock")):
        lines = {tuple(str(each.get(key)) for key in same): each for each in [*read(path), line]}
        text = "".join(json.dumps(each, allow_nan=False, ensure_ascii=False) + "\n" for each in lines.values())
        files.write(path, text.encode())
