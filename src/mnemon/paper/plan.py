"""What is asked for, what of it is there, and what has to be made."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mnemon import data
from mnemon.errors import Diverged
from mnemon.experiments import protocol, runner
from mnemon.experiments.spec import Spec
from mnemon.paper.cells import Cell
from mnemon.paper.results import Results
from mnemon.render import names
from mnemon.runtime.progress import Progress

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scope:
    """Of which methods and streams the runs are wanted; all where none is named."""

    methods: Sequence[str] = ()
    streams: Sequence[str] = ()

    def __call__(self, method: str, stream: str) -> bool:
        return (not self.methods or method in self.methods) and (not self.streams or stream in self.streams)


@dataclass
class TargetPlan:
    """How much of a target is there, and what has to be made."""

    target: str
    what: str  # what is counted
    of: int = 0
    there: int = 0
    searches: list[str] = field(default_factory=list)  # commands that choose on validation what some runs need
    runs: list[Spec] = field(default_factory=list)
    not_here: set[str] = field(default_factory=set)  # datasets that have to be brought by hand
    measurements: list[Any] = field(default_factory=list)  # what has to be made beside runs of the folder
    measured_as: tuple[str, str] = ("", "")  # a measurement's noun, and what is done: ("time", "to take")
    measured_by: str = ""  # the target that makes them, where it is another

    def need(self, missing: Iterable[Spec]) -> TargetPlan:
        """Add runs: those whose dataset can be had."""
        for spec in missing:
            if can_run(spec.stream):
                self.runs.append(spec)
            else:
                self.not_here.add(protocol.parse(spec.stream).dataset)
        return self

    @property
    def to_make(self) -> str:
        """In words."""
        count = len(self.searches)
        parts = [f"{count} search{'es' * (count > 1)} on validation first"] * bool(count)
        parts += [names.plural(len(self.runs), "run")] * bool(self.runs)
        if self.measurements:
            noun, done = self.measured_as
            parts.append(f"{names.plural(len(self.measurements), noun)} {done}")
        parts += [f"not run: the dataset {name} is not here" for name in sorted(self.not_here)]
        return "; ".join(parts) or "nothing"


def plan_cells(target: str, wanted: Sequence[Cell], results: Results) -> TargetPlan:
    """The plan of a target that is made of cells."""
    there = sum(len(results.of(cell).records) == len(results.seeds) for cell in wanted)
    return TargetPlan(target, "cells", len(wanted), there).need(missing(wanted, results))


def missing(wanted: Iterable[Cell], results: Results) -> list[Spec]:
    """The runs that have to be made, each training once, dataset by dataset."""
    absent = (cell.spec(seed) for cell in wanted for seed in results.seeds if seed not in results.of(cell).records)
    return sorted(each_training_once(absent), key=lambda spec: protocol.parse(spec.stream).dataset)


def training(spec: Spec) -> tuple[Any, ...]:
    """Equal for the specs that differ in nothing but their seed and classifiers."""
    choice = spec.choice()
    options = tuple(sorted(choice.options().items()))
    stream = str(protocol.parse(spec.stream))
    return spec.method, stream, choice.objective.name, spec.split, spec.order, spec.backbone, options


def each_training_once(specs: Iterable[Spec]) -> list[Spec]:
    """Each training with all classifiers that any of its specs asks for: the training is what costs."""
    found: dict[tuple[Any, ...], Spec] = {}
    for spec in specs:
        known = found.setdefault((*training(spec), spec.seed), spec)
        if known is not spec:
            asked = dict.fromkeys((*known.classifiers, *spec.classifiers))
            found[(*training(spec), spec.seed)] = replace(known, classifiers=tuple(asked))
    return list(found.values())


def can_run(stream: str) -> bool:
    """Whether the dataset behind a stream is here or can be downloaded; others have to be brought by hand."""
    name = protocol.parse(stream).dataset
    known = data.definitions().get(name)
    here = any(info.name == name and info.state in ("ready", "built in") for info in data.listing())
    return here or (known is not None and known.sources is not None)


@dataclass(frozen=True)
class Maker:
    """Where and how what is missing is made."""

    device: str  # as `choose_device` takes it
    progress: Progress
    pool: str | None = None  # where runs are made (experiments/pools); None: as the device needs it
    steps: int | None = None  # of which a time is measured; None: as many as the device needs

    def run(self, specs: Sequence[Spec], out: Path) -> None:
        """Make these runs. Those that diverge are named; their cells then have fewer runs."""
        try:
            runner.run_all(specs, out, device=self.device, pool=self.pool, progress=self.progress)
        except Diverged as error:
            logger.warning(str(error))
