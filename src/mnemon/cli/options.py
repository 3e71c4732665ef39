"""Options that several commands have."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any

from tyro.conf import arg

Device = Annotated[str, arg(help="cpu, cuda or auto", metavar="NAME")]
# Also read by the entry point, which then prints no messages.
Quiet = Annotated[bool, arg(help="errors only on stderr: no progress, no warnings", help_behavior_hint="")]
On = Annotated[
    str | None,
    arg(
        metavar="NAME",
        help="where runs are made: this-process, worker-processes, or ray, a cluster (docs/scale.md)",
        help_behavior_hint="(default: as the device needs it)",
    ),
]
Method = Annotated[
    str,
    arg(
        metavar="NAME", help="the method; `mnemon list methods` has them all; one of your own is path/to/file.py:Class"
    ),
]


def unset(text: str, metavar: str, default: str = "") -> Any:
    """Describe an option that is None if left out; `default` says in words what happens then."""
    return arg(help=text, metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")


def flag(text: str) -> Any:
    """Describe an option without a value."""
    return arg(help=text, help_behavior_hint="")


Loss = Annotated[str | None, unset("another loss, or path/to/file.py:Class", "NAME", "the method's own")]


def use_plugins(given: Sequence[str]) -> dict[str, str]:
    """Import the files that a command line names for a method, loss or classifiers, and what is installed; their names by
    what was written for them."""
    from mnemon.learning import plugins

    plugins.use_installed()
    found: dict[str, str] = {}
    for flag, value in written(given, ("--method", "--loss", "--classifier")):
        for text in value.split(",") if flag == "--classifier" else [value]:
            found[text] = plugins.use(flag.removeprefix("--"), text)
    return found


def written(given: Sequence[str], flags: Collection[str]) -> Iterator[tuple[str, str]]:
    """The values that options were given: --lr 0.1 or --lr=0.1."""
    for token, following in itertools.zip_longest(given, given[1:]):
        flag, equals, attached = token.partition("=")
        value = attached if equals else following
        if flag.replace("_", "-") in flags and value is not None:
            yield flag.replace("_", "-"), value
