"""`mnemon list`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.data import list_datasets
from mnemon.cli.output import WHAT, table
from mnemon.errors import unknown

if TYPE_CHECKING:
    from mnemon.learning.named import Named


def list_(
    what: Positional[
        Annotated[
            str,
            arg(
                metavar="[WHAT]",
                help="methods, streams, losses, classifiers, backbones or datasets; all of them if left out",
                help_behavior_hint="",
            ),
        ]
    ] = "",
) -> None:
    """List the methods, streams, losses, classifiers, backbones and datasets by name."""
    shows: dict[str, Callable[[], None]] = {
        "methods": _methods,
        "streams": _streams,
        "losses": _losses,
        "classifiers": _classifiers,
        "backbones": _backbones,
        "datasets": list_datasets,
    }
    if what and what not in shows:
        raise unknown("thing to list:", what, shows)
    for name in [what] if what else shows:
        shows[name]()


def _methods() -> None:
    from mnemon.learning import plugins

    plugins.use_installed()
    table(
        "methods (computing: the multiplications of a step beside ER's; docs/choosing.md has times)",
        ("name", WHAT, "differs from ER in", "computing", "source"),
        [
            (m.name, m.summary, ", ".join(m.changes()) or "-", m.cost, m.citation)
            for m in plugins.known("method").values()
        ],
    )


def _streams() -> None:
    from mnemon.experiments import protocol
    from mnemon.streams.kinds import kinds

    rows = [(str(name), name.describe(), str(name.rules.memory)) for name in protocol.listing()]
    usage = ", ".join(kind.usage for kind in kinds().values())
    table(f"streams ({usage} work for every dataset)", ("name", WHAT, "memory"), rows)


def _losses() -> None:
    from mnemon.learning import plugins

    plugins.use_installed()
    rows = [(name, (inspect.getdoc(loss) or "").partition("\n")[0]) for name, loss in plugins.known("loss").items()]
    table("losses", ("name", WHAT), rows)


def _classifiers() -> None:
    from mnemon.learning import plugins

    plugins.use_installed()
    found = plugins.known("classifier")
    rows = [(name, classifier.doc, ", ".join(classifier.needs)) for name, classifier in found.items()]
    table("classifiers", ("name", WHAT, "needs"), rows)
    _options("classifiers", found)


def _backbones() -> None:
    from mnemon.learning.backbones import BACKBONES

    table("backbones", ("name", WHAT), [(name, backbone.doc) for name, backbone in BACKBONES.items()])
    _options("backbones", BACKBONES)


def _options(title: str, found: Mapping[str, type[Named]]) -> None:
    """What follows a name, as in `patches:filters=512`."""
    from mnemon.learning import options

    rows = [
        (f"{name}:{option}", str(field.default), options.argument(field)[1], field.metadata.get("doc", "-"))
        for name, kind in found.items()
        for option, field in options.fields(kind).items()
    ]
    table(f"options of {title} (NAME:OPTION=VALUE)", ("option", "default", "values", WHAT), rows)


COMMANDS = (Command("list", list_),)
