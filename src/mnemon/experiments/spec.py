"""What is asked for: one run, fully named. The same spec is the same run, today and in a folder made last week."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from mnemon import rng
from mnemon.errors import MnemonError, check_known
from mnemon.experiments import protocol
from mnemon.experiments.measures import MEASURES
from mnemon.experiments.recipes.recipes import recipe
from mnemon.learning import plugins, sources
from mnemon.learning.backbones import architecture
from mnemon.learning.build import Choice, check_backbone, choose
from mnemon.learning.method import Method


@dataclass(frozen=True)
class Spec:
    """A method on a named stream with a seed. Options left out come from the recipe of the cell, then the defaults."""

    method: str
    stream: str
    seed: int = 0
    loss: str | None = None
    classifiers: tuple[str, ...] = ()  # empty: the method's own
    split: str = "test"
    order: str = "natural"
    options: dict[str, Any] = field(default_factory=dict)
    cell: str | None = None
    backbone: str | None = None  # None: the dataset's own
    measures: tuple[str, ...] = ()  # of MEASURES

    def __post_init__(self) -> None:
        """Write the names of classifiers and the backbone in one way; `choice` refuses what this version does not know."""
        with contextlib.suppress(MnemonError):
            object.__setattr__(self, "classifiers", tuple(plugins.classifier(text).name for text in self.classifiers))
        object.__setattr__(self, "measures", tuple(sorted(set(self.measures))))
        if self.backbone is not None:
            with contextlib.suppress(MnemonError):
                object.__setattr__(self, "backbone", architecture(self.backbone).name)

    def choice(self) -> Choice:
        """The method, loss and classifiers with every hyper-parameter filled in."""
        name = protocol.parse(self.stream)
        method: type[Method] = plugins.find("method", self.method)
        loss = method.default_objective if self.loss is None else self.loss
        for measure in self.measures:
            check_known("measure", measure, MEASURES)
        check_known("split", self.split, ("test", "valid"))
        check_known("class order", self.order, ("natural", "random"))
        if self.backbone is not None:
            architecture(self.backbone)
            check_backbone(method, self.backbone)
        rng.check_seed(self.seed)
        given = recipe(self.method, loss, name.kind, name.dataset) | self.options
        if method.replays:
            given = {"memory_size": name.rules.memory} | given
        return choose(method, self.loss, self.classifiers, given)

    def usual(self) -> Choice | None:
        """What `mnemon run` would take by itself for this method, stream and loss; None where this version cannot run it."""
        try:
            return replace(self, classifiers=(), options={}).choice()
        except MnemonError:
            return None

    def command(self) -> list[str]:
        """The words of the command that makes this run, but for its seed and where; what it takes by itself is left out."""
        words, usual, known = ["mnemon", "run"], self.usual(), plugins.known("method").get(self.method)
        own, defaults = ((usual.classifiers[0].name,), usual.every_option()) if usual else ((), {})
        words += ["--method", self.method, "--stream", self.stream]
        if self.loss is not None and (known is None or self.loss != known.default_objective):
            words += ["--loss", self.loss]
        if self.classifiers not in ((), own):
            words += ["--classifier", ",".join(self.classifiers)]
        for name, value in self.options.items():
            if name not in defaults or defaults[name] != value:
                words += [f"--{name.replace('_', '-')}", str(value)]
        words += ["--order", self.order] if self.order != "natural" else []
        words += ["--split", self.split] if self.split != "test" else []
        words += ["--measure", ",".join(self.measures)] if self.measures else []
        return words + (["--backbone", self.backbone] if self.backbone else [])

    def key(self, choice: Choice, stream: str, data_checksum: str, computed: dict[str, Any]) -> str:
        """The run's name: readable, and different whenever the training would be. Classifiers do not change training; nor do
        measures, but a record once written stays, so one that states more is another.

        `computed` says where and how (`Engine.identity`).
        """
        identity: dict[str, Any] = {
            "method": self.method,
            "stream": stream,
            "seed": self.seed,
            "loss": choice.objective.name,
            "split": self.split,
            "order": self.order,
            "options": choice.options(),
            "data": data_checksum,
            **computed,
        }
        if self.backbone is not None:
            identity["backbone"] = self.backbone
        if self.measures:
            identity["measures"] = sorted(self.measures)
        if outside := choice.from_outside():  # a classifier's too: checkpoints hold what it found
            identity["plugins"] = {what: sources.digest(kind) for what, kind in outside.items()}
        try:
            digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        except TypeError as error:  # of a method of one's own
            raise MnemonError(
                f"an option of {self.method} cannot be written down ({error}); use numbers and text."
            ) from None
        return f"{self.method}-{stream}-s{self.seed}-{digest[:10]}"
