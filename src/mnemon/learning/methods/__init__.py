"""The methods, one small file each. Every Method class in a module of this folder is found by its name: no registry."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any

from mnemon.errors import MnemonError, unknown
from mnemon.learning.method import Method


@cache
def methods() -> dict[str, type[Method]]:
    """All methods by name, in alphabetical order."""
    found: dict[str, type[Method]] = {}
    for module in pkgutil.iter_modules(__path__):
        for thing in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(thing, type) and issubclass(thing, Method) and thing is not Method:
                found[thing.name] = thing
    return dict(sorted(found.items()))


def method(name: str) -> type[Method]:
    known = methods()
    if name not in known:
        raise unknown("method", name, known)
    return known[name]


def given(what: Any) -> type[Method]:
    """The method of a name, or a Method class as it is."""
    if isinstance(what, str):
        return method(what)
    if not (isinstance(what, type) and issubclass(what, Method)):
        raise MnemonError(f"method must be a name or a Method class, not {what!r}.")
    return what
