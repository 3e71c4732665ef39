"""Runs in a folder: resumed where they stopped, never repeated once finished, shared by any number of processes.

OUT/records.jsonl            one line for each finished run and classifier
OUT/details/RUN.json         average scores and confusion matrices, for the report
OUT/checkpoints/RUN/         of the runs under way; removed when the record is written
"""

from __future__ import annotations

import contextlib
import json
import math
import operator
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from numpy.typing import ArrayLike

import mnemon
from mnemon import checkpoint, files, streams
from mnemon.errors import Diverged, MnemonError
from mnemon.experiments import metrics, protocol, records
from mnemon.experiments.progress import Progress
from mnemon.experiments.records import Record
from mnemon.experiments.run import Run, Task, array_task, dataset_checksum, named_task
from mnemon.experiments.signals import Stopped, watched
from mnemon.experiments.spec import Spec
from mnemon.learning.backbones import MLP, Backbone
from mnemon.learning.build import Choice, choose


def run(
    method: str,
    stream: str | streams.Stream,
    *,
    seed: int = 0,
    data: tuple[ArrayLike, ...] | None = None,
    loss: str | None = None,
    classifier: str | None = None,
    split: str = "test",
    order: str = "natural",
    backbone: Backbone | None = None,
    device: str = "auto",
    **options: Any,
) -> Record:
    """Run a method on a stream and return its record; nothing is written.

    `stream` is a name ("split-mnist") or a stream object over your own data=(x, y, x_test, y_test). Options are the
    hyper-parameters of the method and its loss: lr, gamma, memory_size … `backbone` is a name, a module that returns
    features (n, d) or a function that makes one; the dataset's own network if left out.
    """
    seed = operator.index(seed)  # NumPy's integers too
    where = choose_device(device)
    classifiers = () if classifier is None else (classifier,)
    named = backbone if isinstance(backbone, str) else None  # a module has no name that would tell it from another
    if isinstance(stream, streams.Stream):
        if data is None:
            raise MnemonError("a stream object needs data=(x, y, x_test, y_test).")
        if split != "test" or order != "natural":
            raise MnemonError(
                "split and order are for named streams; a stream object has its order, and x_test tests it."
            )
        choice = choose(method, loss, classifiers, options)
        task = array_task(stream, data, seed, epochs=choice.method.epochs, device=where)
        spec = Spec(method, task.name, seed, loss, classifiers, split, order, options, backbone=named)
    else:
        if data is not None:
            raise MnemonError("a named stream brings its own data; make a stream object for yours (mnemon.streams).")
        spec = Spec(method, stream, seed, loss, classifiers, split, order, options, backbone=named)
        choice = spec.choice()
        task = _task(spec, choice, where)
    if backbone is not None:
        task = replace(task, backbone=backbone)
    going = Run(choice, task, seed=seed, device=where)
    with _threads(going):
        while not going.finished:
            going.advance()
        return _records(going, spec, where)[0]


def run_all(
    specs: Sequence[Spec],
    out: Path,
    *,
    device: str = "auto",
    checkpoint_every: float = 30.0,
    progress: Progress | None = None,
) -> list[Record]:
    """Run all specs in the folder `out` and return their records, those finished earlier included, in that order.

    A spec another process is working on is left to it, and waited for at the end. SIGINT and SIGTERM save and raise
    `Stopped`.
    """
    where = choose_device(device)
    if not checkpoint_every >= 0:
        raise MnemonError(f"checkpoint_every is a number of seconds, 0 or more, not {checkpoint_every}.")
    choices = [spec.choice() for spec in specs]  # mistakes are found before anything is written
    for spec in specs:
        dataset_checksum(spec.stream, where)  # fetched now, while Ctrl-C still stops at once
    show = progress or Progress(quiet=True)
    _make_folder(out)
    results: dict[int, list[Record]] = {}
    diverged: list[str] = []
    with watched() as stop, show.over(len(specs)):
        left = list(range(len(specs)))
        while left:
            busy = []
            there = records.read(out)
            for i in left:
                try:
                    found = _finish(specs[i], choices[i], out, there, where, checkpoint_every, show, stop)
                except Diverged as error:  # it ends alone, the others go on
                    diverged.append(f"seed {specs[i].seed}: {error}")
                    show.say(f"{specs[i].method} on {specs[i].stream}, {diverged[-1]}")
                    continue
                if found is None:
                    busy.append(i)
                else:
                    results[i] = found
            if len(busy) == len(left):  # all that is left is in other hands
                show.wait(len(busy))
                time.sleep(0.5)
                if stop():
                    raise Stopped(stop())
            left = busy
    if diverged:
        raise Diverged(
            f"{len(diverged)} of {len(specs)} runs diverged and have no record (the others do), the first with {diverged[0]}"
        )
    return [record for i in range(len(specs)) for record in results[i]]


def _finish(
    spec: Spec,
    choice: Choice,
    out: Path,
    there: list[Record],
    where: torch.device,
    checkpoint_every: float,
    show: Progress,
    stop: Callable[[], int],
) -> list[Record] | None:
    """The records of a run, made now unless they are there; None while another process works on it."""
    name = str(protocol.parse(spec.stream))
    key = spec.key(choice, name, dataset_checksum(name, where), _device_name(where))
    names = [c.name for c in choice.classifiers]
    if found := _finished(there, key, names):
        show.finished(found, already=True)
        return found
    lock = FileLock(out / "checkpoints" / f"{key}.lock", timeout=0)
    try:
        with lock:
            folder = out / "checkpoints" / "+".join([key, *sorted(names)])
            found = _finished(records.read(out), key, names)  # another process may have done it in between
            already = found is not None
            if found is None:
                found = _one(spec, choice, out, key, folder, where, checkpoint_every, show, stop)
            shutil.rmtree(folder, ignore_errors=True)  # only now: the record is on the disk
    except Timeout:
        return None
    show.finished(found, already=already)
    return found


def _one(
    spec: Spec,
    choice: Choice,
    out: Path,
    key: str,
    folder: Path,
    where: torch.device,
    checkpoint_every: float,
    show: Progress,
    stop: Callable[[], int],
) -> list[Record]:
    """One run to its end, from its newest checkpoint on."""
    going = Run(choice, _task(spec, choice, where), seed=spec.seed, device=where)
    if saved := checkpoint.load(folder, show.say):
        going.restore(saved.tensors, saved.values)
    next_save = time.monotonic() + checkpoint_every

    def proceed() -> bool:
        show.step(going.learner.steps, going.batches.shape[0])
        return not stop() and time.monotonic() < next_save

    show.start(spec, going.position, going.batches.shape[0])
    with _threads(going):
        while not going.finished:
            going.advance(proceed)
            if going.rows:
                show.accuracy({name: row["accuracy"] for name, row in going.rows[-1].items()})
            if stop() or time.monotonic() >= next_save:
                tensors, values = going.state()
                checkpoint.save(folder, going.position * 2 + len(going.rows), tensors, values)
                next_save = time.monotonic() + checkpoint_every
            if stop():
                raise Stopped(stop())
        made = _records(going, spec, where, key)
    try:
        _write_details(out / "details" / f"{key}.json", going)
        records.append(out, made)
    except OSError as error:
        raise MnemonError(f"the record of {key} could not be written to {out} ({error.strerror}).") from error
    return made


@contextlib.contextmanager
def _threads(going: Run) -> Iterator[None]:
    """A step of the MLP is too small to share: a second thread would mostly wait, and on a busy machine wait long."""
    before = torch.get_num_threads()
    if isinstance(going.learner.net.backbone, MLP):
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _task(spec: Spec, choice: Choice, device: torch.device) -> Task:
    task = named_task(
        spec.stream, spec.seed, epochs=choice.method.epochs, split=spec.split, order=spec.order, device=device
    )
    return task if spec.backbone is None else replace(task, backbone=spec.backbone)


def _finished(there: list[Record], key: str, classifiers: list[str]) -> list[Record] | None:
    """The records of a run if all of its classifiers are there."""
    found = {r["classifier"]: r for r in there if r["run"] == key}
    return [found[name] for name in classifiers] if found.keys() >= set(classifiers) else None


def _records(going: Run, spec: Spec, device: torch.device, key: str | None = None) -> list[Record]:
    """One record for each classifier of a finished run."""
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
                    "forward": "joint",
                    "backbone": type(going.learner.net.backbone).__name__,
                    "parameters": going.learner.parameter_count(),
                },
                "seconds": {name: round(seconds, 3) for name, seconds in going.seconds.items()},
                "device": _device_name(device),
                "threads": torch.get_num_threads(),
                "versions": {
                    "mnemon": mnemon.__version__,
                    "python": platform.python_version(),
                    "torch": str(torch.__version__),
                    "numpy": np.__version__,
                },
                "data": task.data,
                "run": key or spec.key(choice, task.name, task.data["checksum"], _device_name(device)),
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
    return made


def _write_details(path: Path, going: Run) -> None:
    """What the report draws beyond the record; other classifiers of the same run, evaluated earlier, are kept."""
    try:
        known = dict(json.loads(path.read_bytes())["classifiers"])
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


@lru_cache
def choose_device(name: str) -> torch.device:
    """auto: the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        if name.split(":")[0] not in ("cpu", "cuda", "mps"):
            raise RuntimeError
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise MnemonError(f"the device {name!r} is not there; use cpu, cuda or auto.") from None
    return device


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _make_folder(out: Path) -> None:
    try:
        for folder in (out, out / "checkpoints", out / "details"):
            folder.mkdir(parents=True, exist_ok=True)
        probe = out / "checkpoints" / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise MnemonError(f"the output folder {out} cannot be written ({error.strerror}).") from None
