"""Finds what the modules of a package hold: a new file is enough, and no list is kept."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")


def modules(package: str) -> list[ModuleType]:
    """Import the modules of a package that is imported, in alphabetical order."""
    path = sys.modules[package].__path__
    return [importlib.import_module(f"{package}.{module.name}") for module in pkgutil.iter_modules(path)]


def classes(package: str, base: type[T], *, key: str = "name") -> dict[str, type[T]]:
    """Find the subclasses of `base` by their names, which the class attribute `key` holds, in alphabetical order."""
    things = [thing for module in modules(package) for thing in vars(module).values() if isinstance(thing, type)]
    found = {getattr(thing, key): thing for thing in things if issubclass(thing, base) and hasattr(thing, key)}
    return dict(sorted(found.items()))
