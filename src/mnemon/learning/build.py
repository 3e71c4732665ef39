"""From names to a method, its loss and its classifiers; combinations that make no sense are refused with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mnemon.errors import MnemonError
from mnemon.learning import options, plugins
from mnemon.learning.backbones import BACKBONES, Backbone, PatchFeatures, architecture
from mnemon.learning.classifier import Classifier
from mnemon.learning.method import Method
from mnemon.learning.objectives import NoLoss, Objective

# In a sentence.
ROWS = {"head": "a softmax head", "proxies": "proxies", "prototypes": "prototypes", "prior": "a class prior"}
# Options without meaning for a method that trains nothing.
OF_TRAINING = {"lr", "average", "sgd_momentum", "weight_decay", "iterations", "augment"}
OF_MEMORY = {"memory_size", "replay_size", "forward"}  # options without meaning for a method that keeps no memory


class Choice(NamedTuple):
    """A filled-in choice on the seams."""

    method: Method
    objective: Objective
    classifiers: list[Classifier]

    def fields(self) -> dict[str, options.Field]:
        """The declarations of all hyper-parameters of the method and its loss."""
        return options.fields(self.method) | options.fields(self.objective)

    def every_option(self) -> dict[str, Any]:
        """All hyper-parameters of the method and its loss."""
        return dataclasses.asdict(self.method) | dataclasses.asdict(self.objective)

    def options(self) -> dict[str, Any]:
        """Every hyper-parameter that means something here, as a record states them."""
        without = meaningless(type(self.method))
        unsaid = omitted_at_default(type(self.method), type(self.objective)).items()
        return {k: v for k, v in self.every_option().items() if k not in without and (k, v) not in unsaid}

    def from_outside(self) -> dict[str, type[Any]]:
        """The classes that are not the package's own, by what they are here: "method", "loss", "classifier NAME"."""
        every: dict[str, type[Any]] = {"method": type(self.method), "loss": type(self.objective)}
        every |= {f"classifier {type(each).name}": type(each) for each in self.classifiers}
        return {what: kind for what, kind in every.items() if not plugins.is_built_in(kind)}

    @property
    def capturable(self) -> bool:
        """Whether its steps can be captured in a CUDA graph; a method that trains nothing has none."""
        return self.method.trains and self.method.capturable and self.objective.capturable


def meaningless(method: type[Method]) -> set[str]:
    """Options of every method that mean nothing to this one."""
    without = set() if method.trains else OF_TRAINING
    if not method.replays:
        return OF_MEMORY | without
    return {"forward"} | without if method.own_passes else without


def omitted_at_default(method: type[Method], objective: type[Objective]) -> dict[str, Any]:
    """The options a record does not state at their defaults, with these: they came after the first records."""
    found = options.omitted_at_default(method) | options.omitted_at_default(objective)
    return {name: default for name, default in found.items() if name not in meaningless(method)}


def choose(
    method: str | type[Method],
    loss: str | None = None,
    classifiers: Sequence[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Choice:
    """The method with its own loss and classifier unless others are named; `given` are hyper-parameters by name."""
    kind: type[Method] = method if isinstance(method, type) else plugins.find("method", method)
    method = kind.name
    loss = kind.default_objective if loss is None else loss
    objective_kind: type[Objective] = plugins.find("loss", loss)
    if kind.trains and objective_kind is NoLoss:
        raise MnemonError(f"{method} trains a network, which takes a loss; none is for methods that train nothing.")
    if not kind.trains and objective_kind is not NoLoss:
        raise MnemonError(f"{method} trains nothing, so it has no use for a loss, and {loss} is one.")
    wanted = (_classifier(text, kind, objective_kind) for text in classifiers or [_default(kind, objective_kind)])
    chosen = {classifier.name: classifier for classifier in wanted}  # each once, in order

    if kind.needs is not None and kind.needs != objective_kind.trains:
        raise MnemonError(f"{method} needs {ROWS[kind.needs]}, which the loss {loss} does not train.")
    if kind.needs_sample_loss and objective_kind.per_sample is Objective.per_sample:
        raise MnemonError(f"{method} scores single samples, for which the loss {loss} has no value.")

    given = dict(given or {})
    mine, its = options.fields(kind).keys() - meaningless(kind), options.fields(objective_kind).keys()
    for name in given:
        if name not in mine | its:
            who = f"{method} with the loss {loss} has" if kind.trains else f"{method} trains nothing and has"
            raise MnemonError(f"{who} no option {name!r}{_owner(name)}; it has {', '.join(sorted(mine | its))}.")
    built = kind(**{k: v for k, v in given.items() if k in mine})
    objective = objective_kind(**{k: v for k, v in given.items() if k in its})
    options.check(built)
    options.check(objective)
    if built.replays and built.memory_size == 0:
        raise MnemonError(f"{method} replays from its memory, so memory_size must be at least 1.")
    return Choice(built, objective, list(chosen.values()))


def check_backbone(method: type[Method], backbone: Backbone | None) -> None:
    """Refuse a backbone that is nothing without training where nothing is trained, and the other way round."""
    if backbone is None or (isinstance(backbone, str) and backbone == "auto"):
        return
    if method.trains and (
        isinstance(backbone, PatchFeatures) or (isinstance(backbone, str) and architecture(backbone).fitted)
    ):
        raise MnemonError(f"{method.name} trains its network, and patches are fitted to images once, not trained.")
    if not method.trains and isinstance(backbone, str) and architecture(backbone).trained:
        name = backbone.partition(":")[0]
        raise MnemonError(
            f"{method.name} trains nothing, and {name} is nothing before it is trained; take patches, identity or a network "
            "of your own."
        )


def _default(method: type[Method], objective: type[Objective]) -> str:
    """The method's own classifier if this loss trains what it needs (ER with MS has no softmax head), else one that fits."""
    there = _there(method, objective)
    for name in (method.default_classifier, "ncm", "proxy", "softmax", "prototype"):
        if there.issuperset(plugins.find("classifier", name).needs):
            return name
    raise MnemonError(
        f"the loss {objective.name} trains features only, and {method.name} keeps no memory to classify with."
    )


def _classifier(text: str, method: type[Method], objective: type[Objective]) -> Classifier:
    classifier = plugins.classifier(text)
    there = _there(method, objective)
    for need in classifier.needs:
        if need not in there:
            raise MnemonError(f"{classifier.name} {_lacking(need, method, objective)}")
    return classifier


def _there(method: type[Method], objective: type[Objective]) -> set[str]:
    """What a classifier can read."""
    rows = {name for name in (objective.trains, objective.keeps) if name}
    return rows | {name for name, kept in (("memory", method.replays), ("statistics", method.keeps_statistics)) if kept}


def _lacking(need: str, method: type[Method], objective: type[Objective]) -> str:
    """Why what a classifier needs is not there: the rest of a sentence that begins with its name."""
    if need == "memory":
        return f"takes its features from the memory, and {method.name} keeps none."
    if need == "statistics":
        keeping = " or ".join(name for name, kind in plugins.known("method").items() if kind.keeps_statistics)
        return f"reads the statistics that {keeping} keeps, and {method.name} keeps none."
    return f"needs {ROWS[need]}, which the loss {objective.name} does not train."


def _owner(option: str) -> str:
    """What else has an option, in a sentence; empty where nothing has, or every method it means something to."""
    if option in options.fields(Method):
        return ""
    kinds: dict[str, Mapping[str, Any]] = {
        "method": plugins.known("method"),
        "loss": plugins.known("loss"),
        "backbone": BACKBONES,
        "classifier": plugins.known("classifier"),
    }
    for kind, known in kinds.items():
        if found := [name for name, holder in known.items() if option in options.fields(holder)]:
            how = f", written {found[0]}:{option}=…" if kind in ("backbone", "classifier") else ""
            return f" (it is an option of the {kind} {' or '.join(found)}{how})"
    return ""
