"""From names to a method, its loss and its classifiers; combinations that make no sense are refused with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mnemon.errors import MnemonError, unknown
from mnemon.learning import options
from mnemon.learning.classifiers import CLASSIFIERS, Classifier
from mnemon.learning.method import Method
from mnemon.learning.methods import method as method_named
from mnemon.learning.objectives import OBJECTIVES, Objective

ROWS = {"head": "a softmax head", "proxies": "proxies", "prototypes": "prototypes"}  # in a sentence
OF_MEMORY = {"memory_size", "replay_size", "forward"}  # options without meaning for a method that keeps no memory
# Options that came later: at their defaults they are not stated, so older runs keep their names.
LATER = {"forward": "joint", "statistics": "kept"}


class Choice(NamedTuple):
    """A filled-in choice on the seams."""

    method: Method
    objective: Objective
    classifiers: list[Classifier]

    def every_option(self) -> dict[str, Any]:
        """All hyper-parameters of the method and its loss."""
        return dataclasses.asdict(self.method) | dataclasses.asdict(self.objective)

    def options(self) -> dict[str, Any]:
        """Every hyper-parameter that means something here, as a record states them."""
        without = meaningless(type(self.method))
        return {k: v for k, v in self.every_option().items() if k not in without and (k not in LATER or LATER[k] != v)}


def meaningless(method: type[Method]) -> set[str]:
    """Options of every method that mean nothing to this one."""
    if not method.replays:
        return OF_MEMORY
    return {"forward"} if method.own_passes else set()


def choose(
    method: str | type[Method],
    loss: str | None = None,
    classifiers: Sequence[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Choice:
    """The method with its own loss and classifier unless others are named; `given` are hyper-parameters by name."""
    kind = method if isinstance(method, type) else method_named(method)
    method = kind.name
    loss = kind.default_objective if loss is None else loss
    if loss not in OBJECTIVES:
        raise unknown("loss", loss, OBJECTIVES)
    objective_kind = OBJECTIVES[loss]
    names = dict.fromkeys(classifiers or [_default(kind, objective_kind)])  # each once, in order
    chosen = [_classifier(name, kind, objective_kind) for name in names]

    if kind.needs is not None and kind.needs != objective_kind.trains:
        raise MnemonError(f"{method} needs {ROWS[kind.needs]}, which the loss {loss} does not train.")
    if kind.needs_sample_loss and objective_kind.per_sample is Objective.per_sample:
        raise MnemonError(f"{method} scores single samples, for which the loss {loss} has no value.")

    given = dict(given or {})
    mine = {f.name for f in dataclasses.fields(kind)} - meaningless(kind)
    its = {f.name for f in dataclasses.fields(objective_kind)}
    for name in given:
        if name not in mine | its:
            raise MnemonError(
                f"{method} with the loss {loss} has no option {name!r}; it has {', '.join(sorted(mine | its))}."
            )
    built = kind(**{k: v for k, v in given.items() if k in mine})
    objective = objective_kind(**{k: v for k, v in given.items() if k in its})
    options.check(built)
    options.check(objective)
    if built.replays and built.memory_size == 0:
        raise MnemonError(f"{method} replays from its memory, so memory_size must be at least 1.")
    return Choice(built, objective, chosen)


def _default(method: type[Method], objective: type[Objective]) -> str:
    """The method's own classifier if this loss trains what it needs (ER with MS has no softmax head), else one that fits."""
    there = {objective.trains, objective.keeps, "memory" if method.replays else None}
    for name in (method.default_classifier, "ncm", "proxy", "softmax", "prototype"):
        if CLASSIFIERS[name].needs in there:
            return name
    raise MnemonError(
        f"the loss {objective.name} trains features only, and {method.name} keeps no memory to classify with."
    )


def _classifier(name: str, method: type[Method], objective: type[Objective]) -> Classifier:
    if name not in CLASSIFIERS:
        raise unknown("classifier", name, CLASSIFIERS)
    classifier = CLASSIFIERS[name]
    if classifier.needs == "memory" and not method.replays:
        raise MnemonError(f"{name} takes its class means from the memory, and {method.name} keeps none.")
    if classifier.needs in ROWS and classifier.needs not in (objective.trains, objective.keeps):
        raise MnemonError(f"{name} needs {ROWS[classifier.needs]}, which the loss {objective.name} does not train.")
    return classifier
