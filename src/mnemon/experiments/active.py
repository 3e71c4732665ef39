"""A run that this process advances: its lock is held, its checkpoints are written, and at its end its record."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from mnemon import checkpoint
from mnemon.errors import MnemonError
from mnemon.experiments.events import Emit, Evaluated, Saved, Started, Stepped
from mnemon.experiments.executor import executor_for, threads
from mnemon.experiments.job import Job
from mnemon.experiments.record import Record
from mnemon.experiments.recording import make_records, write
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import make_scenario
from mnemon.learning.named import in_file_name
from mnemon.runtime.device import Engine


class Clock:
    """When checkpoints are due: at the same times for all runs of a process. Runs of a stack ask for the moment at which
    their steps began, which they share, so they save at the same step and can be stacked again."""

    def __init__(self, every: float) -> None:
        self.every, self.start = every, time.monotonic()

    def rings(self, moment: float) -> float:
        """How often it has rung by then."""
        return (moment - self.start) // max(self.every, 1e-6)


class JobLock:
    """The lock of a job, held by this process, and the place of its checkpoints."""

    def __init__(self, job: Job, out: Path, lock: FileLock) -> None:
        self.job, self.out, self.lock, self.folder = job, out, lock, checkpoint_folder(job, out)

    @classmethod
    def acquire(cls, job: Job, out: Path) -> JobLock | None:
        """None while another process holds the lock."""
        lock = FileLock(_lock_path(job, out), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            return None
        return cls(job, out, lock)

    def clear(self) -> None:
        """Remove the checkpoints and the lock file, once the record is on the disk.

        The lock is still held: a process that opened the file before, and locks it after the release, finds that it has no
        name (filelock looks) and tries again. Were it not noticed, as on a network file system that renames open files, no
        run would be made twice: after locking, the scheduler looks for the record.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # a system that does not remove open files
            _lock_path(self.job, self.out).unlink()

    def release(self) -> None:
        self.lock.release()


def clear_finished(job: Job, out: Path) -> None:
    """Remove what a process that was killed after it wrote the records of this job may have left."""
    if (checkpoint_folder(job, out).exists() or _lock_path(job, out).exists()) and (claim := JobLock.acquire(job, out)):
        claim.clear()
        claim.release()


def checkpoint_folder(job: Job, out: Path) -> Path:
    return out / "checkpoints" / "+".join([job.key, *map(in_file_name, sorted(job.classifiers))])


def _lock_path(job: Job, out: Path) -> Path:
    return out / "checkpoints" / f"{job.key}.lock"


class ActiveRun:
    """A claimed job under way: `advance` until that is True, `finish`, `close`."""

    def __init__(self, claim: JobLock, engine: Engine, clock: Clock, emit: Emit) -> None:
        """Make the run, or restore it from its newest checkpoint."""
        self.claim, self.engine, self.clock, self.emit = claim, engine, clock, emit
        self.job = job = claim.job
        self.concurrent = 1  # runs active at once, this one included, at most
        self.saved = clock.rings(time.monotonic())  # when the last checkpoint was due
        scenario = make_scenario(job.spec, job.choice, engine.device)
        if scenario.data["checksum"] != job.checksum:  # the run is named by what was there before
            raise MnemonError(f"another {scenario.data['name']} was stored while its runs were under way; start again.")
        bf16 = engine.precision == "bf16"
        self.run = Run(
            job.choice, scenario, seed=job.spec.seed, device=engine.device, bf16=bf16, measures=job.spec.measures
        )
        if saved := checkpoint.load(claim.folder):
            self.run.restore(saved.tensors, saved.values)
        self.executor = executor_for(self.run)
        name = f"{job.title}, seed {job.spec.seed}"
        emit(Started(job.number, name, self.run.position, len(self.run.batches)))

    def advance(self, stop: Callable[[], int]) -> bool:
        """Launch more steps, or settle those that were launched and launch the next ones; True when the run has finished."""
        run, executor = self.run, self.executor

        def proceed() -> bool:
            self.emit(Stepped(self.job.number, run.learner.steps))
            return not stop() and not self.due()

        if run.finished:  # its last checkpoint was the last thing a process wrote before it was killed
            return True
        if executor.push():  # the device has more to do: the next run's turn
            return False
        evaluated = len(run.rows)
        with threads(run):
            executor.settle(proceed)
            self.emit(Stepped(self.job.number, run.position))
            if len(run.rows) > evaluated:
                accuracy = {name: row["accuracy"] for name, row in run.rows[-1].items()}
                self.emit(Evaluated(self.job.number, accuracy))
            if (stop() or self.due()) and not executor.evaluating:
                self.save()
            if not run.finished and not stop():
                executor.launch()
        return run.finished

    def save(self) -> None:
        tensors, values = self.run.state()
        number = self.run.position * 2 + len(self.run.rows)  # rises with every step and every evaluation
        checkpoint.save(self.claim.folder, number, tensors, values)
        self.saved = self.clock.rings(self.executor.began())
        self.emit(Saved(self.job.number, str(self.claim.folder)))

    def due(self) -> bool:
        """Whether the clock has rung since the last checkpoint."""
        return self.clock.rings(self.executor.began()) > self.saved

    def stop(self) -> None:
        """Wait for what was launched, and save."""
        self.executor.rest()
        self.save()

    def finish(self) -> list[Record]:
        """Write the records of the finished run, then remove its checkpoints."""
        with threads(self.run):
            made = make_records(self.run, self.job.spec, self.engine, self.job.key, self.concurrent)
        write(self.claim.out, self.run, made)
        self.claim.clear()
        return made

    def close(self) -> None:
        """Wait for what was launched, free the memory and release the lock."""
        self.executor.close()
        del self.run, self.executor  # callers may still refer to this object
        self.claim.release()
