"""The hyper-parameters of all methods and losses as options of a command.

They are declared in the classes, which take seconds to import, since they need torch. So what the command line has to know of
them is kept in the cache folder, as JSON, until a file of mnemon.learning or the recipes change.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from tyro.conf import arg

import mnemon
from mnemon import files
from mnemon.cli.options import use_plugins, written
from mnemon.runtime.cache_folder import cache_dir

PACKAGE = Path(mnemon.__file__).parent
TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in (bool, int, float, str)}
NAMED = ("--method", "--loss", "--classifier")
GROUPS = ("mnemon.methods", "mnemon.losses", "mnemon.classifiers")


class Row(NamedTuple):
    """An option: what --help says of it, and what it takes."""

    name: str
    type: str  # of TYPES
    words: tuple[str, ...]  # that it takes instead
    owners: tuple[str, ...]  # who has it: "method er", "loss ms"; "own hybrid": the loss of hybrid where none is named
    help: str
    default: str  # in words
    metavar: str


def collect_options(given: Sequence[str] = ()) -> type[Any]:
    """A dataclass with every hyper-parameter of the methods and losses, of those the command line names too; None means: not
    given."""
    from importlib.metadata import entry_points

    outside: dict[str, str] = {}
    if _names_a_file(given) or any(entry_points(group=group) for group in GROUPS):
        outside = use_plugins(given)
        rows = declared(outside=True)
    else:
        rows = _kept()
    if {"-h", "--help"} & set(given):
        rows = _of_the_method(rows, given, outside)
    fields = []
    for row in rows:
        kind: Any = TYPES[row.type] | Literal[row.words] if row.words else TYPES[row.type]
        about = arg(help=row.help, help_behavior_hint=f"(default: {row.default})", metavar=row.metavar)
        fields.append((row.name, Annotated[kind | None, about], dataclasses.field(default=None)))
    return dataclasses.make_dataclass("hyper-parameters", fields)


def _of_the_method(rows: list[Row], given: Sequence[str], outside: dict[str, str]) -> list[Row]:
    """Those that the method and loss on the command line take; all where it names none, or none that is known."""
    named = {flag: outside.get(value, value) for flag, value in written(given, NAMED)}
    method, loss = f"method {named.get('--method')}", named.get("--loss")
    owners = {method, f"loss {loss}" if loss else f"own {named.get('--method')}"}
    return [row for row in rows if owners & set(row.owners)] if any(method in row.owners for row in rows) else rows


def declared(*, outside: bool = False) -> list[Row]:
    """As the classes declare them, those from outside the package if asked for."""
    from mnemon.experiments.recipes.recipes import cells
    from mnemon.learning import options, plugins
    from mnemon.learning.build import meaningless
    from mnemon.learning.methods import methods
    from mnemon.learning.objectives import OBJECTIVES

    by_stream = {"memory_size", *(name for cell in cells().values() for name in cell.values)}
    found: dict[str, dict[str, dataclasses.Field[Any]]] = {}  # option → who has it → as which field
    every: list[dict[str, Any]] = (
        [plugins.known("method"), plugins.known("loss")] if outside else [methods(), OBJECTIVES]
    )
    for holder in [holder for known in every for holder in known.values()]:
        for field in dataclasses.fields(holder):
            if isinstance(field.default, int | float | str):  # else of a class from outside; no option holds it
                found.setdefault(field.name, {})[holder.name] = field
    takers: dict[str, list[str]] = {name: [] for name in found}
    for name in found:
        for method in every[0].values():
            if name in options.fields(method) and name not in meaningless(method):
                takers[name].append(f"method {method.name}")
            default_loss = every[1].get(method.default_objective)  # none: `choose` refuses the method with a sentence
            if default_loss is not None and name in options.fields(default_loss):
                takers[name].append(f"own {method.name}")
        takers[name] += [f"loss {loss.name}" for loss in every[1].values() if name in options.fields(loss)]
    rows = []
    for name, owners in found.items():
        field = next(iter(owners.values()))
        default = f"{'by stream, else ' if name in by_stream else ''}{field.default}"
        default += "".join(f"; {its.default} for {who}" for who, its in owners.items() if its.default != field.default)
        words = tuple(field.metadata.get("words", ()))
        metavar, kind = options.argument(field)[1], options.kind(field).__name__
        rows.append(Row(name, kind, words, tuple(takers[name]), field.metadata.get("doc", ""), default, metavar))
    return rows


def _names_a_file(given: Sequence[str]) -> bool:
    return any(".py:" in value for _, value in written(given, NAMED))


def _kept() -> list[Row]:
    """Those of the cache folder, if they are of today's classes; else declared, and kept for the next command."""
    path, stamp = cache_dir() / ".hyper-parameters.json", _stamp()
    try:
        kept = files.parsed(path.read_bytes())
        if kept["stamp"] == stamp:
            return [_row(row) for row in kept["rows"]]
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or damaged
        pass
    rows = declared()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, json.dumps({"stamp": stamp, "rows": rows}).encode())
    except OSError:  # a folder that cannot be written: the next command imports the classes again
        pass
    return rows


def _row(values: Any) -> Row:
    """Raises a ValueError or TypeError for what is no row."""
    name, kind, words, owners, *texts = values
    row = Row(name, kind, tuple(words), tuple(owners), *texts)
    if kind not in TYPES or not all(isinstance(text, str) for text in (name, *row.words, *row.owners, *texts)):
        raise ValueError("no option")
    return row


def _stamp() -> str:
    """Changes whenever the classes or the recipes may have."""
    places = [*sorted(PACKAGE.glob("learning/**/*.py")), PACKAGE / "experiments/recipes/recipes.json"]
    about = [(str(path.relative_to(PACKAGE)), (found := os.stat(path)).st_mtime_ns, found.st_size) for path in places]
    return hashlib.sha256(json.dumps([mnemon.__version__, str(PACKAGE), about]).encode()).hexdigest()
