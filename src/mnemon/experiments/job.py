"""A job: a spec, resolved for a device. What must be known before the run can be made is looked up once, here."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from mnemon.experiments import protocol
from mnemon.experiments.scenario import dataset_checksum
from mnemon.experiments.spec import Spec
from mnemon.learning import plugins
from mnemon.learning.build import Choice
from mnemon.learning.options import same_in_a_stack
from mnemon.runtime.device import Engine
from mnemon.runtime.threads import torch_threads


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
    def captured(self) -> bool:
        """Whether its steps are launched ahead on a GPU, and stacked with others."""
        return self.choice.capturable and "prequential" not in self.spec.measures

    @property
    def title(self) -> str:
        return f"{self.spec.method} on {self.spec.stream}"


def resolve(spec: Spec, engine: Engine, *, number: int = 0, choice: Choice | None = None) -> Job:
    """Look up the options, stream and dataset of a spec; the dataset is fetched if need be."""
    choice = choice or spec.choice()
    stream = str(protocol.parse(spec.stream))
    checksum = dataset_checksum(stream, engine.here)
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
    shapes = same_in_a_stack(choice.fields(), choice.options())
    names = [classifier.name for classifier in choice.classifiers]
    asked = (spec.split, spec.order, spec.backbone, spec.measures)
    return repr((spec.method, spec.stream, choice.objective.name, names, *asked, shapes))


@dataclass(frozen=True)
class Assignment:
    """Jobs, the folder for their records and checkpoints, and how to run them."""

    jobs: tuple[Job, ...]
    out: Path
    engine: Engine
    checkpoint_every: float
    limit: int  # runs at once, at most
    threads: int  # of a process on a CPU
    concurrent: int = 1  # runs at once in all processes, at least

    def divided(self, processes: int) -> Assignment:
        """The threads shared by so many processes. Deterministic runs have one, however many processes there are."""
        return replace(self, threads=1 if self.engine.deterministic else max(1, self.threads // processes))

    def threads_set(self) -> contextlib.AbstractContextManager[None]:
        """Within, torch has this many threads, on a CPU."""
        return torch_threads(self.threads if self.engine.device.type == "cpu" else None)

    def to_json(self) -> str:
        """One line, for another process."""
        jobs = [[job.number, asdict(job.spec)] for job in self.jobs]
        engine = [str(self.engine.device), self.engine.precision, self.engine.deterministic]
        outside = dict.fromkeys(kind for job in self.jobs for kind in job.choice.from_outside().values())
        changed = {"jobs": jobs, "out": str(self.out), "engine": engine, "files": plugins.files(list(outside))}
        return json.dumps(vars(self) | changed)

    @classmethod
    def from_json(cls, line: str) -> Assignment:
        """The jobs are resolved again, for the device of this process; code from outside is imported here as there."""
        values = json.loads(line)
        plugins.use_installed()
        plugins.use_files(values.pop("files"))
        device, precision, deterministic = values["engine"]
        engine = Engine(torch.device(device), precision, deterministic)
        specs = [
            (number, Spec(**spec | {name: tuple(spec[name]) for name in ("classifiers", "measures")}))
            for number, spec in values["jobs"]
        ]
        jobs = tuple(resolve(spec, engine, number=number) for number, spec in specs)
        return cls(**values | {"jobs": jobs, "out": Path(values["out"]), "engine": engine})
