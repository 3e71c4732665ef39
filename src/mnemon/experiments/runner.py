"""Runs in a folder: resumed where they stopped, never repeated once finished, shared by any number of processes.

OUT/records.jsonl            one line for each finished run and classifier
OUT/details/RUN.json         average scores and confusion matrices, for the report
OUT/checkpoints/RUN/         of the runs under way; removed when the record is written
"""

from __future__ import annotations

import operator
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from numpy.typing import ArrayLike

from mnemon import streams
from mnemon.errors import Diverged, MnemonError, unknown
from mnemon.experiments import protocol, records
from mnemon.experiments.lane import Lane, make_records, threads
from mnemon.experiments.progress import Progress
from mnemon.experiments.records import Record
from mnemon.experiments.run import Run, Task, array_task, dataset_checksum, named_task
from mnemon.experiments.signals import Stopped, watched
from mnemon.experiments.spec import Spec
from mnemon.learning.backbones import Backbone
from mnemon.learning.build import Choice, choose

AT_ONCE = 16  # runs side by side on a GPU
PRECISIONS = ("fp32", "tf32", "bf16")


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
    with threads(going):
        while not going.finished:
            going.advance()
        return make_records(going, spec, _device_name(where))[0]


def run_all(
    specs: Sequence[Spec],
    out: Path,
    *,
    device: str = "auto",
    at_once: int | None = None,
    precision: str = "tf32",
    checkpoint_every: float = 30.0,
    progress: Progress | None = None,
) -> list[Record]:
    """Run all specs in the folder `out` and return their records, those finished earlier included, in that order.

    On a GPU, `at_once` of them side by side (AT_ONCE if left out). A spec another process is working on is left to it, and
    waited for at the end. SIGINT and SIGTERM save and raise `Stopped`.
    """
    where = choose_device(device)
    if not checkpoint_every >= 0:
        raise MnemonError(f"checkpoint_every is a number of seconds, 0 or more, not {checkpoint_every}.")
    if at_once is not None and at_once < 1:
        raise MnemonError(f"at_once is a number of runs, 1 or more, not {at_once}.")
    choices = [spec.choice() for spec in specs]  # mistakes are found before anything is written
    for spec in specs:
        dataset_checksum(spec.stream, where)  # fetched now, while Ctrl-C still stops at once
    set_precision(precision, where)
    show = progress or Progress(quiet=True)
    _make_folder(out)
    work = _Work(specs, choices, out, where, precision, checkpoint_every, show)
    with watched() as stop, show.over(len(specs)):
        work.run(at_once or (AT_ONCE if where.type == "cuda" else 1), stop)
    if work.diverged:
        raise Diverged(
            f"{len(work.diverged)} of {len(specs)} runs diverged and have no record (the others do), the first with "
            f"{work.diverged[0]}"
        )
    return [record for i in range(len(specs)) for record in work.results[i]]


class _Work:
    """Runs to be made in a folder, and how far they are."""

    def __init__(
        self,
        specs: Sequence[Spec],
        choices: list[Choice],
        out: Path,
        where: torch.device,
        precision: str,
        every: float,
        show: Progress,
    ) -> None:
        self.specs, self.choices, self.out, self.where, self.precision = specs, choices, out, where, precision
        self.every, self.show = every, show
        self.device = _device_name(where)
        self.waiting = deque(range(len(specs)))
        self.lanes: deque[Lane] = deque()
        self.results: dict[int, list[Record]] = {}
        self.diverged: list[str] = []

    def run(self, at_once: int, stop: Callable[[], int]) -> None:
        """Keep `at_once` runs under way until all are done; each in turn gets its next steps."""
        try:
            while self.waiting or self.lanes:
                there = records.read(self.out) if self.waiting and len(self.lanes) < at_once else []
                for _ in range(len(self.waiting)):
                    if len(self.lanes) < at_once and not stop():
                        at_once = self._begin(self.waiting.popleft(), there, at_once)
                if stop():
                    self._stop(stop)
                if self.lanes:
                    at_once = self._go_on(self.lanes.popleft(), at_once, stop)
                elif self.waiting:  # all that is left is in other hands
                    self.show.wait(len(self.waiting))
                    time.sleep(0.5)
        finally:
            for lane in self.lanes:
                lane.close()

    def _begin(self, i: int, there: list[Record], at_once: int) -> int:
        """Take run i in hand, unless it is done or another process has it. Returns how many there may be from now on."""
        spec, choice = self.specs[i], self.choices[i]
        name = str(protocol.parse(spec.stream))
        key = spec.key(choice, name, dataset_checksum(name, self.where), self.device, self.precision)
        names = [c.name for c in choice.classifiers]
        if found := _finished(there, key, names):
            self._done(i, found, already=True)
            return at_once
        lane = Lane.take(i, key, names, self.out, self.every)
        if lane is None:
            self.waiting.append(i)
            return at_once
        self.lanes.append(lane)
        if found := _finished(records.read(self.out), key, names):  # another process may have done it in between
            lane.clear()
            self._end(lane, found, already=True)
            return at_once
        try:
            going = Run(
                choice,
                _task(spec, choice, self.where),
                seed=spec.seed,
                device=self.where,
                bf16=self.precision == "bf16",
            )
            position = lane.start(going, self.show.say)
        except torch.OutOfMemoryError:
            return self._no_room(lane)
        self.show.start(key, spec, position, len(going.batches))
        return at_once

    def _go_on(self, lane: Lane, at_once: int, stop: Callable[[], int]) -> int:
        spec = self.specs[lane.number]
        self.lanes.append(lane)
        try:
            if lane.go_on(self.show, stop):
                self._end(lane, lane.finish(spec, self.device, self.precision, len(self.lanes)))
        except Diverged as error:  # it ends alone, the others go on
            self.diverged.append(f"seed {spec.seed}: {error}")
            self.show.say(f"{spec.method} on {spec.stream}, {self.diverged[-1]}")
            self._drop(lane)
            self.show.finished(lane.key, [], already=False)
        except torch.OutOfMemoryError:
            return self._no_room(lane)
        return at_once

    def _no_room(self, lane: Lane) -> int:
        """The device is full: one run fewer from now on. This one starts again later, from its last checkpoint."""
        self._drop(lane)
        torch.cuda.empty_cache()
        if not self.lanes:
            raise MnemonError(
                f"not even one run of {self.specs[lane.number].method} fits into the memory of the device."
            )
        self.show.say(f"the device's memory is full: going on with {len(self.lanes)} runs at once")
        self.waiting.appendleft(lane.number)
        return len(self.lanes)

    def _stop(self, stop: Callable[[], int]) -> None:
        for lane in self.lanes:
            assert lane.going is not None
            if lane.going.launched is not None:
                lane.going.settle()
            lane.save()
        raise Stopped(stop())

    def _end(self, lane: Lane, found: list[Record], *, already: bool = False) -> None:
        self._drop(lane)
        self._done(lane.number, found, already=already, key=lane.key)

    def _drop(self, lane: Lane) -> None:
        self.lanes.remove(lane)
        lane.close()

    def _done(self, i: int, found: list[Record], *, already: bool, key: str = "") -> None:
        self.results[i] = found
        self.show.finished(key, found, already=already)


def set_precision(name: str, device: torch.device) -> None:
    """fp32, tf32 (19 bits in matrix products and convolutions, on a GPU) or bf16 (in the backbone)."""
    if name not in PRECISIONS:
        raise unknown("precision", name, PRECISIONS)
    if name == "bf16" and device.type == "cpu":
        raise MnemonError("bf16 is for GPUs; on a CPU it would be slower.")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = name != "fp32"


def _task(spec: Spec, choice: Choice, device: torch.device) -> Task:
    task = named_task(
        spec.stream, spec.seed, epochs=choice.method.epochs, split=spec.split, order=spec.order, device=device
    )
    return task if spec.backbone is None else replace(task, backbone=spec.backbone)


def _finished(there: list[Record], key: str, classifiers: list[str]) -> list[Record] | None:
    """The records of a run if all of its classifiers are there."""
    found = {r["classifier"]: r for r in there if r["run"] == key}
    return [found[name] for name in classifiers] if found.keys() >= set(classifiers) else None


@lru_cache
def choose_device(name: str) -> torch.device:
    """auto: the GPU where there is one."""
    # As many queues to the device as it has, lest runs side by side share one; read when CUDA starts. 8 by default.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
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
