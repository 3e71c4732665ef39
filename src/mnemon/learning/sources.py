"""A digest of the code of a class: two runs have the same code only if theirs are equal."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

PLAIN = (bool, int, float, str, type(None))
EXECUTED = "__executed__"  # an attribute of a module: the content of its file when it was imported, where that is known


def digest(kind: type[Any]) -> str | None:
    """Of the file that defines the class and of those it imports from its own folder or package, and of the plain values among
    its class attributes, which a program may set. None where no file tells: a class made by a function or typed in.

    The files are read when the class is first asked for, as near to its import as can be.
    """
    files = _of_files(kind)  # type: ignore[arg-type]
    if files is None:
        return None
    values = [
        [each.__qualname__, name, repr(value)]
        for each in kind.__mro__
        if each.__module__.partition(".")[0] not in ("mnemon", "builtins")
        for name, value in sorted(vars(each).items())
        if isinstance(value, PLAIN) and not name.startswith("__")
    ]
    return of_content(json.dumps([files, values]).encode())[:16]


def of_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=256)
def _of_files(kind: type[Any]) -> str | None:
    module = sys.modules.get(kind.__module__)
    if module is None or getattr(module, kind.__qualname__, None) is not kind:
        return None
    root = _root(module)
    if root is None:
        return None
    found: dict[Path, bytes] = {}
    try:
        for base in kind.__mro__:  # a base class may stand in another file
            _collect(sys.modules[base.__module__], root, found)
    except (OSError, SyntaxError, ValueError):
        return None
    named = sorted((str(path.relative_to(root)), of_content(content)) for path, content in found.items())
    return json.dumps([kind.__qualname__, named])


def _root(module: ModuleType) -> Path | None:
    """The folder of a module, or that of the outermost package it is in."""
    path = getattr(module, "__file__", None)
    if path is None or not Path(path).is_file():
        return None
    return Path(path).resolve().parents[(module.__package__ or "").count(".")]


def _collect(module: ModuleType, root: Path, found: dict[Path, bytes]) -> None:
    """Add the file of a module below `root`, and those of the modules it imports."""
    path = Path(getattr(module, "__file__", None) or "/").resolve()
    if (
        path in found
        or path.suffix != ".py"
        or not path.is_relative_to(root)
        or module.__name__.partition(".")[0] == "mnemon"
        or "site-packages" in path.relative_to(root).parts
    ):
        return
    found[path] = getattr(module, EXECUTED, None) or path.read_bytes()
    for name in _imports(found[path], module.__package__ or ""):
        if name in sys.modules:
            _collect(sys.modules[name], root, found)


def _imports(content: bytes, package: str) -> Iterator[str]:
    """The names of the modules that a file may import, wherever in it."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(base, package) if node.level else base
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
