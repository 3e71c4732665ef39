"""What a command is, and where all of them are found."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

FIRST = ("demo", "list", "run", "tune", "reproduce", "report", "fit", "predict", "evaluate", "export", "bench")


class Command(NamedTuple):
    """A function as a command: its signature and its docstring are the --help."""

    name: str  # one word, or two of a group: "run", "data list"
    function: Callable[..., Any]
    # Called before the arguments are read, to add options that are slow to collect.
    prepare: Callable[[], None] | None = None
    # Answers an unknown option and its value with a better sentence than the general one, or with None.
    unknown_option: Callable[[str, str], str | None] | None = None

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


def commands() -> dict[str, Command]:
    """Find the commands in the modules of this package. Help shows those of FIRST first, in that order."""
    assert __package__ is not None
    found: dict[str, Command] = {}
    for module in pkgutil.iter_modules(importlib.import_module(__package__).__path__):
        declared = getattr(importlib.import_module(f"{__package__}.{module.name}"), "COMMANDS", ())
        found |= {command.name: command for command in declared}
    return {name: found[name] for name in dict.fromkeys((*FIRST, *found)) if name in found}
