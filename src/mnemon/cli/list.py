"""`mnemon list`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.data import list_datasets
from mnemon.cli.output import table
from mnemon.errors import unknown


def list_(
    what: Positional[
        Annotated[
            str,
            arg(
                metavar="WHAT",
                help="methods, streams, losses, classifiers or datasets; all of them if left out",
                help_behavior_hint="",
            ),
        ]
    ] = "",
) -> None:
    """List the methods, streams, losses, classifiers and datasets by name."""
    shows: dict[str, Callable[[], None]] = {
        "methods": _methods,
        "streams": _streams,
        "losses": _losses,
        "classifiers": _classifiers,
        "datasets": list_datasets,
    }
    if what and what not in shows:
        raise unknown("thing to list:", what, shows)
    for name in [what] if what else shows:
        shows[name]()


def _methods() -> None:
    from mnemon.learning.methods import methods

    table(
        "methods (computing: the multiplications of a step beside ER's; docs/choosing.md has times)",
        ("name", "what it is", "other than ER in", "computing", "source"),
        [(m.name, m.summary, ", ".join(m.changes()) or "-", m.cost, m.citation) for m in methods().values()],
    )


def _streams() -> None:
    from mnemon.experiments.protocol import NAMES, RULES

    rows = [(n, *_stream_words(n, RULES)) for n in NAMES]
    table("streams (KIND-DATASET[-TASKS] works for every dataset)", ("name", "what it is", "memory"), rows)


def _losses() -> None:
    from mnemon.learning.objectives import OBJECTIVES

    rows = [(name, (inspect.getdoc(loss) or "").partition("\n")[0]) for name, loss in OBJECTIVES.items()]
    table("losses", ("name", "what it is"), rows)


def _classifiers() -> None:
    from mnemon.learning.classifiers import CLASSIFIERS

    table("classifiers", ("name", "what it is", "needs"), [(c.name, c.doc, c.needs) for c in CLASSIFIERS.values()])


def _stream_words(name: str, rules: Any) -> tuple[str, str]:
    kind, dataset, *tasks = name.split("-")
    rule = rules[dataset]
    text = (
        f"{tasks[0] if tasks else rule.tasks} tasks of disjoint classes, one after the other"
        if kind == "split"
        else "every class comes and goes as a Gaussian over time; no tasks"
    )
    return text, str(rule.memory)


COMMANDS = (Command("list", list_),)
