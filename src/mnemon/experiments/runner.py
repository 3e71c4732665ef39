"""Runs in a folder: resumed where they stopped, never repeated once finished, shared by any number of processes.

OUT/records.jsonl            one line for each finished run and classifier
OUT/details/RUN.json         average scores and confusion matrices, for the report
OUT/checkpoints/RUN+CLASSIFIERS/  of the runs under way; removed when the record is written
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import torch
from filelock import FileLock
from numpy.typing import ArrayLike

from mnemon import files, rng, streams
from mnemon.errors import Diverged, MnemonError, check_known
from mnemon.experiments import protocol
from mnemon.experiments.active import clear_finished
from mnemon.experiments.events import Emit, Event, Finished, RunDiverged
from mnemon.experiments.executor import executor_for, threads
from mnemon.experiments.job import Assignment, Job, resolve_all
from mnemon.experiments.measures import MEASURES
from mnemon.experiments.pools import choose_pool
from mnemon.experiments.pools.pool import Pool
from mnemon.experiments.progress import RunProgress, run_title
from mnemon.experiments.record import Record
from mnemon.experiments.recording import Recorded, make_records, write
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import array_scenario, make_scenario, with_backbone
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning import augmentation, plugins, sources
from mnemon.learning.backbones import Backbone
from mnemon.learning.build import choose
from mnemon.learning.classifier import Classifier
from mnemon.learning.method import Method
from mnemon.learning.objectives import Objective
from mnemon.runtime import modes
from mnemon.runtime.device import Engine, choose_device
from mnemon.runtime.progress import SILENT, Progress
from mnemon.runtime.signals import watched

logger = logging.getLogger(__name__)
Named = str | type[Classifier]


@overload
def run(
    method: str | type[Method], stream: str | streams.Stream, *, classifier: Named | None = ..., **more: Any
) -> Record: ...


@overload
def run(
    method: str | type[Method],
    stream: str | streams.Stream,
    *,
    classifier: list[Named] | tuple[Named, ...],
    **more: Any,
) -> list[Record]: ...


@modes.usual
def run(
    method: str | type[Method],
    stream: str | streams.Stream,
    *,
    seed: int = 0,
    data: tuple[ArrayLike, ...] | None = None,
    loss: str | type[Objective] | None = None,
    classifier: Named | list[Named] | tuple[Named, ...] | None = None,
    split: str = "test",
    order: str = "natural",
    backbone: Backbone | None = None,
    device: str = "auto",
    out: str | os.PathLike[str] | None = None,
    measure: Sequence[str] = (),
    **options: Any,
) -> Record | list[Record]:
    """Run a method on a stream and return its record; with several classifiers, a list of records of one training.

    `method` is a name of `mnemon.methods()`, a Method class of your own, or a file with one ("path/to/file.py:Class"); `loss`
    and `classifier` likewise. `stream` is a name ("split-mnist") or a stream object over your own data=(x, y, x_test, y_test).
    Options are the hyper-parameters of the method and its loss: lr, gamma,
    memory_size … `backbone` is a name, a module that returns features (n, d) or a function that makes one; the dataset's own
    network if left out. `measure` names what is measured beside the accuracies: "prequential", "probe" (docs/records.md).

    Nothing is written, unless `out` names a folder: the record is then added to those there, for `mnemon report`. A run that
    is there already is not made again; nor is one with a method, loss or classifier of your own whose file is as it was. One
    with a stream or network of your own is made again, since no name tells whether it is the same, and so is one with a class
    that no file holds (typed in, or made by a function); the report takes the latest.
    """
    if "seeds" in options:
        raise MnemonError("mnemon.run makes one run, with seed=0 or another; call it once for each of several seeds.")
    rng.check_seed(seed)
    seed = int(seed)  # NumPy's integers too
    if not isinstance(out, str | os.PathLike | None):
        raise MnemonError(f"out must name a folder, not {out!r}.")
    where = choose_device(device)
    plugins.use_installed()
    several = isinstance(classifier, list | tuple)
    wanted: Sequence[Any] = () if classifier is None else classifier if several else (classifier,)  # type: ignore[assignment]
    given: dict[str, Sequence[Any]] = {"method": [method], "loss": [loss], "classifier": wanted}
    classes = [what for what, values in given.items() if any(isinstance(value, type) for value in values)]
    name = plugins.use("method", method)
    loss = None if loss is None else plugins.use("loss", loss)
    if several and not wanted:
        raise MnemonError("classifier is an empty list; leave it out for the method's own.")
    classifiers = tuple(plugins.use("classifier", each) for each in wanted)
    if not isinstance(measure, str | list | tuple):
        raise MnemonError(f"measure is a name or a list of names, not {measure!r}.")
    asked = (measure,) if isinstance(measure, str) else tuple(measure)
    for each in asked:
        check_known("measure", each, MEASURES)
    if not isinstance(stream, str | streams.Stream):
        raise MnemonError(f"stream is a name (split-mnist) or a stream object of mnemon.streams, not {stream!r}.")
    named = backbone if isinstance(backbone, str) else None  # a module has no name that would tell it from another
    on = stream if isinstance(stream, str) else stream.kind
    spec = Spec(name, on, seed, loss, classifiers, split, order, options, backbone=named, measures=asked)
    if isinstance(stream, str):
        if data is not None:
            raise MnemonError("a named stream brings its own data; make a stream object for yours (mnemon.streams).")
        choice = spec.choice()
        scenario = make_scenario(spec, choice, where)
    else:
        if data is None:
            raise MnemonError("a stream object needs data=(x, y, x_test, y_test).")
        if split != "test" or order != "natural":
            raise MnemonError(
                "split and order are for named streams; a stream object has its order, and x_test tests it."
            )
        choice = choose(name, loss, classifiers, options)
        scenario = array_scenario(stream, data, seed, epochs=choice.method.epochs, device=where)
    scenario = with_backbone(scenario, choice, backbone)
    if choice.method.augment != "none":
        _notice_shifts(scenario.inputs.shape)
    engine, folder = Engine(where), None if out is None else Path(out)
    key = spec.key(choice, scenario.name, scenario.data["checksum"], engine.identity())
    outside = choice.from_outside()
    unnamed = [
        what for what, is_own in {"stream": data is not None, "network": backbone is not named}.items() if is_own
    ]
    if folder is not None:
        _make_folder(folder)
    if unnamed or not all(map(sources.digest, outside.values())):
        key += f"-{time.time_ns():x}"  # no name tells it from another: each of its runs is one of its own
    elif folder is not None:
        there = {record["classifier"]: record for record in ResultFolder(folder).read() if record["run"] == key}
        if all(each.name in there for each in choice.classifiers):
            found = [there[each.name] for each in choice.classifiers]
            return found if several else found[0]
    made_run = Run(choice, scenario, seed=seed, device=where, measures=spec.measures)
    executor = executor_for(made_run)
    with threads(made_run), contextlib.closing(executor):
        while not made_run.finished:
            executor.advance()
        made = make_records(made_run, spec, engine, key)
    if own := classes + unnamed:
        made = [record | {"own": own} for record in made]
    if folder is not None:
        write(folder, made_run, made)
    return made if several else made[0]


def run_all(
    specs: Sequence[Spec],
    out: Path,
    *,
    device: str = "auto",
    jobs: int | None = None,
    pool: str | Pool | None = None,
    precision: str = "tf32",
    deterministic: bool = False,
    checkpoint_every: float = 30.0,
    progress: Progress = SILENT,
    title: Callable[[Record], str] = run_title,
) -> list[Record]:
    """Run all specs in the folder `out` and return their records, those finished earlier included, in that order.

    `jobs` runs are made at once: on a GPU in this process (32 if left out), on a CPU in as many processes (one for each
    of torch's threads); `pool` names another place, or is one (`experiments/pools`). Deterministic runs end with the same
    bits however many there are. A run that another command is making in this folder is left to it, and waited for at the end.
    `title` names a finished run in its message. SIGINT and SIGTERM save and raise `Stopped`.
    """
    if not checkpoint_every >= 0:
        raise MnemonError(f"checkpoint_every is a number of seconds, 0 or more, not {checkpoint_every}.")
    if jobs is not None and jobs < 1:
        raise MnemonError(f"jobs is a number of runs, 1 or more, not {jobs}.")
    with contextlib.closing(choose_pool(pool, device)) as place:
        engine = place.engine(device, precision, deterministic)
        engine.check()
        # Mistakes are found before anything is written, and Ctrl-C still stops at once.
        todo = resolve_all(specs, engine)
        for stream in sorted({job.stream for job in todo if job.choice.method.augment != "none"}):
            _notice_shifts(protocol.parse(stream).shape)
        memories = {(job.stream, job.choice.method.memory_size) for job in todo if job.choice.method.replays}
        for stream, rows in sorted(memories):
            if said := protocol.parse(stream).memory_notice(rows):
                logger.warning(said)
        _make_folder(out)
        cores = torch.get_num_threads()
        results: dict[int, list[Record]] = {}
        diverged: dict[int, str] = {}

        def collect(event: Event) -> None:
            if isinstance(event, Finished):
                results.setdefault(event.number, event.records)
            elif isinstance(event, RunDiverged):
                diverged.setdefault(event.number, event.why)
            show.update(event)

        with watched() as stop, engine.in_use(), progress.bars() as add:
            show = RunProgress(len(specs), add, title)
            left = tuple(_unfinished(todo, out, collect))
            if left:
                limit = min(len(specs), jobs or place.at_once(engine))
                place.run(Assignment(left, out, engine, checkpoint_every, limit, cores), collect, stop)
    if diverged:
        others = " (the others do)" if len(diverged) < len(specs) else ""
        raise Diverged(
            f"{len(diverged)} of {len(specs)} runs diverged and have no record{others}, the first with "
            f"{diverged[min(diverged)]}"
        )
    if lost := [job.key for job in todo if job.number not in results]:
        raise MnemonError(f"{len(lost)} of {len(specs)} runs were not made, the first is {lost[0]}; start again.")
    return [record for job in todo for record in results[job.number]]


def _notice_shifts(shape: tuple[int, ...]) -> None:
    if said := augmentation.notice(shape):
        logger.warning(said)


def _unfinished(jobs: Sequence[Job], out: Path, emit: Emit) -> Iterator[Job]:
    """The jobs without records. Of the others, what a process that was killed after it wrote them may have left is removed."""
    recorded = Recorded(out)
    for job in jobs:
        if found := recorded.of(job):
            clear_finished(job, out)
            emit(Finished(job.number, found, already=True))
        else:
            yield job


def _make_folder(out: Path) -> None:
    with files.explained(f"the output folder {out} cannot be written"):
        for folder in (out, out / "checkpoints", out / "details"):
            folder.mkdir(parents=True, exist_ok=True)
        probe = out / "checkpoints" / f".writable-{os.getpid()}"
        with FileLock(probe):  # some network file systems have no locks
            pass
        probe.unlink(missing_ok=True)
