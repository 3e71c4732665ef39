"""The methods, one small file each. Every Method class in a module of this folder is found by its name: no registry."""

from __future__ import annotations

from functools import cache
from typing import Any

from mnemon import discovery
from mnemon.errors import MnemonError, check_known
from mnemon.learning.method import Method


@cache
def methods() -> dict[str, type[Method]]:
    """All methods by name, in alphabetical order."""
    return discovery.classes(__name__, Method)


def method(name: str) -> type[Method]:
    known = methods()
    check_known("method", name, known)
    return known[name]


def given(what: Any) -> type[Method]:
    """The method of a name, or a Method class as it is."""
    if isinstance(what, str):
        return method(what)
    if not (isinstance(what, type) and issubclass(what, Method)):
        raise MnemonError(f"method must be a name or a Method class, not {what!r}.")
    return what
