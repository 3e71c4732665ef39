"""What a pool is: a place where jobs run. What is done there is the same everywhere: an Assignment's scheduler."""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch

from mnemon.experiments.events import Emit
from mnemon.experiments.job import Job, resolve
from mnemon.experiments.scheduler import Scheduler
from mnemon.experiments.spec import Spec
from mnemon.runtime.device import Engine


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

    def scheduler(self, emit: Emit) -> Scheduler:
        return Scheduler(
            self.jobs,
            self.out,
            self.engine,
            emit,
            limit=self.limit,
            checkpoint_every=self.checkpoint_every,
            concurrent=self.concurrent,
        )

    def divided(self, processes: int) -> Assignment:
        """The threads shared by so many processes. Deterministic runs have one, however many processes there are."""
        return replace(self, threads=1 if self.engine.deterministic else max(1, self.threads // processes))

    @contextlib.contextmanager
    def threads_set(self) -> Iterator[None]:
        """Within, torch has this many threads, on a CPU."""
        before = torch.get_num_threads()
        if self.engine.device.type == "cpu":
            torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def to_json(self) -> str:
        """One line, for another process."""
        return json.dumps(
            {
                "jobs": [[job.number, asdict(job.spec)] for job in self.jobs],
                "out": str(self.out),
                "engine": [str(self.engine.device), self.engine.precision, self.engine.deterministic],
                "checkpoint_every": self.checkpoint_every,
                "limit": self.limit,
                "threads": self.threads,
                "concurrent": self.concurrent,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Assignment:
        """The jobs are resolved again, for the device of this process."""
        values = json.loads(line)
        device, precision, deterministic = values.pop("engine")
        engine = Engine(torch.device(device), precision, deterministic)
        specs = [
            (number, Spec(**spec | {"classifiers": tuple(spec["classifiers"])})) for number, spec in values["jobs"]
        ]
        jobs = tuple(resolve(spec, engine, number=number) for number, spec in specs)
        return cls(**values | {"jobs": jobs, "out": Path(values["out"]), "engine": engine})


class Pool(ABC):
    """Runs the jobs of an assignment. One class in a file of this folder is found by its name."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, work: Assignment, emit: Emit, stop: Callable[[], int]) -> None:
        """Return when `emit` was called with a Finished or RunDiverged for each job; any thread may call it.

        When `stop()` is not 0, the number of a signal: save the active runs and raise Stopped. Whatever happens, nothing
        still runs afterwards.
        """
