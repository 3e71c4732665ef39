"""Tables inside documents: what stands between <!-- mnemon: NAME --> and <!-- /mnemon --> is written from the records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from mnemon import files
from mnemon.errors import MnemonError

PLACE = re.compile(r"(<!-- mnemon: (\S+) -->\n)(.*?)(<!-- /mnemon -->)", re.DOTALL)


def filled(text: str, block: Callable[[str], str], what: str = "the text") -> str:
    """The text with every marked place written anew; `block` gives the Markdown of a name, or refuses the name."""
    _check(text, what)
    return PLACE.sub(lambda found: f"{found[1]}\n{block(found[2])}\n{found[4]}", text)


def pictures(folder: Path, captions: dict[str, str], beside: Path) -> str:
    """The figures of a folder as a document in `beside` shows them; those that are not there are named."""
    shown, absent = [], []
    for name, caption in captions.items():
        if (folder / f"{name}.png").exists():
            shown.append(f"{_image(folder, name, caption, beside)}*Figure {name[3:]}: {caption}*\n")
        else:
            absent.append(name[3:])
    if absent:
        shown.append(f"Not drawn, since their runs are missing: Figure {', '.join(absent)}.\n")
    return "\n".join(shown)


def picture(folder: Path, name: str, caption: str, beside: Path) -> str:
    """One figure as a document in `beside` shows it, or that it is not there."""
    if not (folder / f"{name}.png").exists():
        return "Not drawn: what it needs is not measured yet.\n"
    return f"{_image(folder, name, caption, beside)}*{caption}*\n"


def _image(folder: Path, name: str, caption: str, beside: Path) -> str:
    place = Path(os.path.relpath(folder, beside)).as_posix()
    return f"![{caption}]({place}/{name}.png)\n\n"


def names(path: Path) -> list[str]:
    """What the marked places of a file ask for."""
    text = _read(path)
    _check(text, str(path))
    return [found[1] for found in PLACE.findall(text)]


def fill(path: Path, block: Callable[[str], str]) -> bool:
    """Write the marked places of a file; False where nothing had to change."""
    before = _read(path)
    after = filled(before, block, str(path))
    if after != before:
        files.write(path, after.encode())
    return after != before


def _check(text: str, what: str) -> None:
    if text.count("<!-- mnemon: ") != len(PLACE.findall(text)):
        raise MnemonError(f"a place in {what} begins with <!-- mnemon: NAME --> and has no <!-- /mnemon --> after it.")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MnemonError(f"{path} cannot be read ({getattr(error, 'strerror', error)}).") from None
