"""The body of a task on a Ray cluster: makes its runs in a folder of its own, and yields what the driver must know.

A task needs nothing of the driver's disk: checkpoints, and datasets that its machine lacks, come with it; events, checkpoints,
records and details go back as values. An error that concerns the user is a value, too. What is yielded is text and bytes:

("event", JSON)                                 what happened (events.py)
("saved", number, checkpoint, tensors, values)  a checkpoint of the job `number`, as bytes (`checkpoint.Packed`)
("finished", JSON, details)                     a Finished event, and the content of the details file
("refused", sentence)                           the task cannot go on
"""

from __future__ import annotations

import contextlib
import logging
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemon import checkpoint
from mnemon.data import store
from mnemon.errors import MnemonError
from mnemon.experiments.active import checkpoint_folder
from mnemon.experiments.events import Event, Finished, Message, Saved, Stepped, Waiting, to_json
from mnemon.experiments.job import Assignment
from mnemon.experiments.recording import details_file, versions
from mnemon.experiments.scheduler import Scheduler
from mnemon.runtime import messages, ray_cluster
from mnemon.runtime.signals import Stopped

OFTEN = 1.0  # seconds between two events of steps, and between two questions whether to stop
Item = tuple[Any, ...]


def make_runs(driver: dict[str, str], *rest: Any) -> Iterator[Item]:
    """Compare the versions first: what follows may have another meaning in another version."""
    if sentence := ray_cluster.mismatch(driver, versions()):
        yield "refused", sentence
        return
    yield from _make_runs(*rest)


def _make_runs(
    line: str, keys: dict[int, str], kept: dict[int, Item], datasets: dict[str, Any], switch: Any
) -> Iterator[Item]:
    """`line` is an assignment; `keys` are the names its runs have for the driver; `kept` their newest checkpoints, `datasets`
    references to those the driver has."""
    outbox: queue.SimpleQueue[Item | BaseException | None] = queue.SimpleQueue()
    ended, stopping = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="mnemon-") as folder:
                _bring(datasets)
                _schedule(_prepare(line, keys, kept, Path(folder)), outbox, stopping)
        except Stopped:  # all is saved and sent
            pass
        except MnemonError as error:
            outbox.put(("refused", str(error)))
        except BaseException as error:
            outbox.put(error)
        finally:
            ended.set()
            outbox.put(None)

    # The scheduler calls back, a generator is asked: each has a thread.
    threads = [threading.Thread(target=work), threading.Thread(target=_ask, args=(switch, ended, stopping))]
    for thread in threads:
        thread.start()
    while (item := outbox.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item
    for thread in threads:
        thread.join()


def _ask(switch: Any, ended: threading.Event, stopping: threading.Event) -> None:
    """Ask the driver's switch now and then whether to stop."""
    ray = ray_cluster.import_ray()
    while not ended.wait(OFTEN):
        with contextlib.suppress(ray.exceptions.RayError):  # its process is being replaced
            if ray.get(switch.is_set.remote()):
                stopping.set()
                return


def _bring(datasets: dict[str, Any]) -> None:
    """Store the datasets that this machine lacks."""
    for name, reference in datasets.items():
        if store.read_metadata(name) is None:
            store.unpack(name, *ray_cluster.import_ray().get(reference))


def _prepare(line: str, keys: dict[int, str], kept: dict[int, Item], out: Path) -> Assignment:
    """The assignment for this machine, its checkpoints in `out`."""
    work = replace(Assignment.from_json(line), out=out)
    for name in ("checkpoints", "details"):
        (out / name).mkdir()
    for job in work.jobs:
        if job.key != keys[job.number]:  # the device, or the dataset
            raise MnemonError(
                f"on a machine of the Ray cluster ({work.engine.name}) the run {keys[job.number]} would be another, "
                f"{job.key}: its device or its copy of the dataset differs from the others'."
            )
        if job.number in kept:
            checkpoint.unpack(checkpoint_folder(job, out), checkpoint.Packed(*kept[job.number]))
    return work


def _schedule(work: Assignment, outbox: queue.SimpleQueue[Any], stopping: threading.Event) -> None:
    sender = Sender(work, outbox)
    with work.threads_set(), work.engine.in_use(), messages.handled_by(sender):
        Scheduler(work, sender).run(lambda: 15 if stopping.is_set() else 0)


class Sender(logging.Handler):
    """Puts events into the outbox, and what the driver has to write with them; messages, too."""

    def __init__(self, work: Assignment, outbox: queue.SimpleQueue[Any]) -> None:
        super().__init__()
        self.out, self.outbox = work.out, outbox
        self.keys = {job.number: job.key for job in work.jobs}
        self.next: dict[int, float] = {}  # of a run: when its next step is sent

    def emit(self, record: logging.LogRecord) -> None:
        self(Message(record.name, record.levelno, record.getMessage()))

    def __call__(self, event: Event) -> None:
        match event:
            case Waiting():
                return
            case Stepped(number):
                if time.monotonic() < self.next.get(number, 0.0):
                    return
                self.next[number] = time.monotonic() + OFTEN
                self.outbox.put(("event", to_json(event)))
            case Saved(number, folder):
                if packed := checkpoint.pack(Path(folder)):
                    self.outbox.put(("saved", number, *packed))
            case Finished(number):
                details = details_file(self.out, self.keys[number]).read_bytes()
                self.outbox.put(("finished", to_json(event), details))
            case _:
                self.outbox.put(("event", to_json(event)))
