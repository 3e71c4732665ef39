"""What a command is, and where all of them are found."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mnemon import discovery

FIRST = (
    "demo",
    "list",
    "run",
    "tune",
    "reproduce",
    "report",
    "log",
    "fit",
    "predict",
    "evaluate",
    "merge",
    "export",
    "serve",
    "learn",
    "bench",
)


class Command(NamedTuple):
    """A function as a command: its signature and its docstring are the --help."""

    name: str  # one word, or two of a group: "run", "data list"
    function: Callable[..., Any]
    # Called with the arguments before they are read, to add options that are slow to collect.
    prepare: Callable[[Sequence[str]], None] | None = None
    # Answers an unknown option and its value with a better sentence than the general one, or with None.
    unknown_option: Callable[[str, str], str | None] | None = None

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


def commands() -> dict[str, Command]:
    """Find the commands in the modules of this package. Help shows those of FIRST first, in that order."""
    declared = [getattr(module, "COMMANDS", ()) for module in discovery.modules("mnemon.cli")]
    found = {command.name: command for of_module in declared for command in of_module}
    return {name: found[name] for name in dict.fromkeys((*FIRST, *found)) if name in found}
