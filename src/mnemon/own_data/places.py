"""Where results may be written: not among the classes of a folder, where they would be taken for one, not into the folder of
a model, which holds nothing else, and not over the data they are made from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mnemon import checkpoint
from mnemon.errors import MnemonError


def check_outside(out: Path, folder: Path) -> None:
    """Refuse an `out` below the folder of class folders."""
    if folder.resolve() in _above(out):
        raise MnemonError(f"{out} lies in {folder}, whose folders are classes; give an --out elsewhere.")


def check_there(model: Path) -> None:
    """Refuse a model's folder that does not exist, which is a misspelt name."""
    if not model.is_dir():
        raise MnemonError(f"there is no folder {model}, and so no model.")


def check_no_model(out: Path) -> None:
    """Refuse an `out` that is the folder of a model, or lies in one."""
    for place in (out.resolve(), *_above(out)):
        if _holds_model(place):
            raise MnemonError(
                f"{out} cannot be written: the folder of the model {place.name} holds nothing else; give an --out elsewhere."
            )


def check_no_source(out: Path, sources: Iterable[str]) -> None:
    """Refuse an `out` that is one of the files to be read: it would be replaced."""
    for source in sources:
        if out.exists() and os.path.exists(source) and os.path.samefile(out, source):
            raise MnemonError(f"{out} is read and would be replaced by the result; give another --out.")


def _above(out: Path) -> list[Path]:
    """All folders it lies in: as it is named, and where links lead."""
    named = Path(os.path.abspath(out)).parent.resolve()
    return [named, *named.parents, *out.resolve().parents]


def _holds_model(folder: Path) -> bool:
    try:
        return checkpoint.newest(folder) > 0
    except OSError:  # a folder above that one may pass through, but not look into
        return False
