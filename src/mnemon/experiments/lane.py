"""A run under way in a folder: its lock is held, its checkpoints are written, and at its end its record."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout

import mnemon
from mnemon import checkpoint, files
from mnemon.errors import MnemonError
from mnemon.experiments import metrics, records
from mnemon.experiments.progress import Progress
from mnemon.experiments.records import Record
from mnemon.experiments.run import Run
from mnemon.experiments.spec import Spec
from mnemon.learning.backbones import MLP, title
from mnemon.learning.named import in_file_name
from mnemon.runtime.device import Engine


class Clock:
    """When checkpoints are due: at the same times for all runs of a process. Asked for the moment at which their steps began,
    which the runs of a stack share, they save at the same step and can be stacked again."""

    def __init__(self, every: float) -> None:
        self.every, self.start = every, time.monotonic()

    def rings(self, moment: float) -> float:
        """How often it has rung by then."""
        return (moment - self.start) // max(self.every, 1e-6)


class Lane:
    """One of the runs a process has in hand. `take` it, ask it to `go_on` until it has finished, `close` it."""

    def __init__(self, number: int, key: str, lock: FileLock, folder: Path, out: Path, clock: Clock) -> None:
        self.number, self.key, self.lock, self.folder, self.out, self.clock = number, key, lock, folder, out, clock
        self.going: Run | None = None
        self.at_once = 1  # runs under way, this one among them, at most
        self.saved = clock.rings(time.monotonic())  # when the last checkpoint was due

    @classmethod
    def take(cls, number: int, key: str, classifiers: list[str], out: Path, clock: Clock) -> Lane | None:
        """The lane of run `key`; None while another process has it."""
        lock = FileLock(out / "checkpoints" / f"{key}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            return None
        return cls(number, key, lock, cls._folder(out, key, classifiers), out, clock)

    @staticmethod
    def _folder(out: Path, key: str, classifiers: list[str]) -> Path:
        return out / "checkpoints" / "+".join([key, *map(in_file_name, sorted(classifiers))])

    @classmethod
    def clear_left(cls, out: Path, key: str, classifiers: list[str]) -> None:
        """The checkpoints of a run that was killed after its record was on the disk."""
        shutil.rmtree(cls._folder(out, key, classifiers), ignore_errors=True)

    def start(self, going: Run, say: Callable[[str], None]) -> int:
        """Go on from the newest checkpoint, if there is one; returns the step."""
        self.going = going
        if saved := checkpoint.load(self.folder, say):
            going.restore(saved.tensors, saved.values)
        return going.position

    def go_on(self, show: Progress, stop: Callable[[], int]) -> bool:
        """Launch more steps, or settle those that were launched and begin the next ones; True when the run has finished."""
        going = self.going
        assert going is not None

        def proceed() -> bool:
            show.step(self.key, going.learner.steps)
            return not stop() and not self.due()

        if going.finished:  # its last checkpoint was the last thing a process wrote before it was killed
            return True
        if going.push():  # the device has more to do: the next lane's turn
            return False
        evaluated = len(going.rows)
        with threads(going):
            going.settle(proceed)
            show.step(self.key, going.position)
            if len(going.rows) > evaluated:
                show.accuracy({name: row["accuracy"] for name, row in going.rows[-1].items()})
            if (stop() or self.due()) and going.pending is None:
                self.save()
            if not going.finished and not stop():
                going.launch()
        return going.finished

    def save(self) -> None:
        going = self.going
        assert going is not None
        tensors, values = going.state()
        checkpoint.save(self.folder, going.position * 2 + len(going.rows), tensors, values)
        self.saved = self.clock.rings(going.moment())

    def due(self) -> bool:
        """Whether the clock has rung since the last checkpoint."""
        return self.going is not None and self.clock.rings(self.going.moment()) > self.saved

    def finish(self, spec: Spec, engine: Engine) -> list[Record]:
        """Write the records of the finished run, then drop its checkpoints."""
        going = self.going
        assert going is not None
        with threads(going):
            made = make_records(going, spec, engine, self.key, self.at_once)
        write(self.out, going, made)
        self.clear()
        return made

    def clear(self) -> None:
        """Only when the record is on the disk."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def withdraw(self) -> None:
        """Steps that were asked for and not begun are not."""
        if self.going is not None and self.going.captured is not None:
            self.going.captured.withdraw()

    def close(self) -> None:
        """Give the run back; what is on its way is waited for."""
        if self.going is not None and self.going.captured is not None:
            self.withdraw()
            self.going.captured.wait()
            self.going.captured.leave()
        self.going = None
        self.lock.release()


@contextlib.contextmanager
def threads(going: Run) -> Iterator[None]:
    """A step of the MLP is too small to share: a second thread would mostly wait, and on a busy machine wait long."""
    before = torch.get_num_threads()
    if isinstance(going.learner.net.backbone, MLP):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def make_records(going: Run, spec: Spec, engine: Engine, key: str, beside: int = 1) -> list[Record]:
    """One record for each classifier of the finished run `key`; `beside`: runs that were under way at once."""
    choice, task = going.choice, going.task
    options = choice.options()
    labels, counts = np.unique(task.y[task.stream.indices], return_counts=True)
    shared = {
        "loss": choice.objective.name,
        "memory_size": going.learner.memory.size,
        "divisor": options.get("divisor"),
        "order": spec.order,
        "split": spec.split,
        "cell": spec.cell,
    }
    made = []
    for classifier in choice.classifiers:
        matrix = [row[classifier.name]["accuracy"] for row in going.rows]
        made.append(
            {
                "method": spec.method,
                "stream": task.name,
                "seed": spec.seed,
                **shared,
                "classifier": classifier.name,
                "average_accuracy": metrics.average_accuracy(matrix),
                "average_forgetting": _null(metrics.average_forgetting(matrix)),
                "anytime_accuracy": _null(metrics.anytime_accuracy(matrix)),
                "learning_accuracy": _null(metrics.learning_accuracy(matrix)),
                "accuracy_matrix": matrix,
                "options": options,
                "protocol": {
                    "kind": task.stream.kind,
                    "tasks": [list(labels) for labels in task.stream.tasks],
                    "boundaries": list(task.stream.boundaries),
                    "tested": [list(labels) for labels in task.tested],
                    "class_counts": [
                        [label, count] for label, count in zip(labels.tolist(), counts.tolist(), strict=True)
                    ],
                    "samples": len(task.stream.indices),
                    "learned": going.batches.size,
                    "batches": len(going.batches),
                    "passes": choice.method.epochs or 1,
                    "augmentation": choice.method.augmentation(),
                    "memory": choice.method.memory_rule if choice.method.replays else "none",
                    "forward": "separate" if choice.method.own_passes else choice.method.forward,
                    "backbone": title(task.backbone, going.learner.net.backbone),
                    "parameters": going.learner.parameter_count(),
                },
                "seconds": {name: round(seconds, 3) for name, seconds in going.seconds.items()},
                "backbone": spec.backbone,  # as it was asked for; None: the dataset's own
                "device": engine.name,
                "threads": torch.get_num_threads(),
                "precision": engine.exact,
                "deterministic": engine.deterministic,
                "at_once": beside,
                "versions": {
                    "mnemon": mnemon.__version__,
                    "python": platform.python_version(),
                    "torch": str(torch.__version__),
                    "numpy": np.__version__,
                },
                "data": task.data,
                "run": key,
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
    return made


def write(out: Path, going: Run, made: list[Record]) -> None:
    """The records of a finished run, and its details first: a record says that all is there."""
    key = made[0]["run"]
    try:
        _write_details(out / "details" / f"{key}.json", going)
        records.append(out, made)
    except OSError as error:
        raise MnemonError(f"the record of {key} could not be written to {out} ({error.strerror}).") from error


def _write_details(path: Path, going: Run) -> None:
    """What the report draws beyond the record; other classifiers of the same run, evaluated earlier, are kept."""
    try:
        known = dict(files.parsed(path.read_bytes())["classifiers"])
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or damaged: the record does not depend on it
        known = {}
    new = {
        c.name: {
            "average_scores": [row[c.name]["scores"] for row in going.rows],
            "confusion": going.confusion[c.name],
        }
        for c in going.choice.classifiers
    }
    details = {"labels": np.sort(going.table.labels).tolist(), "classifiers": known | new}
    files.write(path, json.dumps(details, allow_nan=False).encode())


def _null(value: float) -> float | None:
    return None if math.isnan(value) else value
