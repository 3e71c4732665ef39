"""Options that several commands have, and an option for each hyper-parameter of the methods and losses."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from tyro.conf import arg

Device = Annotated[str, arg(help="cpu, cuda or auto", metavar="NAME")]
# Also read by the entry point: messages are not printed either.
Quiet = Annotated[bool, arg(help="no progress on stderr", help_behavior_hint="")]
Method = Annotated[str, arg(metavar="NAME", help="the method; `mnemon list methods` has them all")]


def unset(text: str, metavar: str, default: str = "") -> Any:
    """Describe an option that is None if left out; `default` says in words what happens then."""
    return arg(help=text, metavar=metavar, help_behavior_hint=f"(default: {default})" if default else "")


def flag(text: str) -> Any:
    """Describe an option without a value."""
    return arg(help=text, help_behavior_hint="")


Loss = Annotated[str | None, unset("another loss", "NAME", "the method's own")]


def collect_options() -> type[Any]:
    """A dataclass with every hyper-parameter of the methods and losses; None means: not given."""
    from mnemon.experiments.recipes.recipes import cells
    from mnemon.learning.methods import methods
    from mnemon.learning.objectives import OBJECTIVES
    from mnemon.learning.options import argument

    by_stream = {"memory_size", *(name for cell in cells().values() for name in cell.values)}
    found: dict[str, dict[str, dataclasses.Field[Any]]] = {}  # option → who has it → as which field
    holders: list[Any] = [*methods().values(), *OBJECTIVES.values()]
    for holder in holders:
        for field in dataclasses.fields(holder):
            found.setdefault(field.name, {})[holder.name] = field
    fields = []
    for name, owners in found.items():
        field = next(iter(owners.values()))
        default = f"{'by stream, else ' if name in by_stream else ''}{field.default}"
        others = [f"; {other.default} for {who}" for who, other in owners.items() if other.default != field.default]
        kind, metavar = argument(field)
        text = arg(
            help=field.metadata["doc"], help_behavior_hint=f"(default: {default}{''.join(others)})", metavar=metavar
        )
        fields.append((name, Annotated[kind | None, text], dataclasses.field(default=None)))
    return dataclasses.make_dataclass("hyper-parameters", fields)
