"""A job: a spec, resolved for a device. Whatever must be known before the run can be made is looked up once, here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.experiments import protocol
from mnemon.experiments.scenario import dataset_checksum
from mnemon.experiments.spec import Spec
from mnemon.learning.build import Choice
from mnemon.runtime.device import Engine


@dataclass(frozen=True)
class Job:
    """One run to be made. Processes that share jobs know each by its number."""

    number: int  # its place among the specs that were asked for
    spec: Spec
    choice: Choice
    stream: str  # the one name of a stream that can be written in several ways
    checksum: str  # of the dataset
    key: str  # the run's name
    kind: str  # runs of one kind can be stacked

    @property
    def classifiers(self) -> list[str]:
        return [classifier.name for classifier in self.choice.classifiers]

    @property
    def title(self) -> str:
        return f"{self.spec.method} on {self.spec.stream}"


def resolve(spec: Spec, engine: Engine, *, number: int = 0, choice: Choice | None = None) -> Job:
    """Look up the options, stream and dataset of a spec; the dataset is fetched if need be."""
    choice = choice or spec.choice()
    stream = str(protocol.parse(spec.stream))
    checksum = dataset_checksum(stream, engine.device)
    key = spec.key(choice, stream, checksum, engine.identity())
    return Job(number, spec, choice, stream, checksum, key, _kind(spec, choice))


def resolve_all(specs: Sequence[Spec], engine: Engine) -> list[Job]:
    """All choices first: mistakes are found before a dataset is fetched."""
    choices = [spec.choice() for spec in specs]
    return [
        resolve(spec, engine, number=number, choice=choice)
        for number, (spec, choice) in enumerate(zip(specs, choices, strict=True))
    ]


def _kind(spec: Spec, choice: Choice) -> str:
    """Runs of one kind differ only in the seed and in hyper-parameters that do not change shapes."""
    shapes = {name: value for name, value in choice.options().items() if not isinstance(value, float)}
    names = [classifier.name for classifier in choice.classifiers]
    return repr((spec.method, spec.stream, choice.objective.name, names, spec.split, spec.order, spec.backbone, shapes))
