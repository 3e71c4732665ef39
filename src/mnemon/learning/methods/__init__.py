"""The methods, one small file each. Every Method class in a module of this folder is found by its name: no registry."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from mnemon.errors import unknown
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
