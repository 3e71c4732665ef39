"""Jobs run in this process and in worker processes beside it, one at a time in each: what the cores of a CPU need.

All of them have the same jobs; the locks and records of the folder decide which process makes which run, as between separate
commands. A worker (worker.py) reads its assignment as one JSON line from its stdin, then the numbers of jobs that diverged
elsewhere; it prints events as JSON lines. When its stdin ends, it saves and stops, so no worker outlives its parent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import IO, ClassVar, NamedTuple

from mnemon.errors import MnemonError
from mnemon.experiments.events import Emit, Event, RunDiverged, Waiting, from_json
from mnemon.experiments.job import Assignment
from mnemon.experiments.pools.pool import Pool
from mnemon.experiments.scheduler import Scheduler

logger = logging.getLogger(__name__)
PATIENCE = 60.0  # seconds a worker has to save its runs


class WorkerProcesses(Pool):
    name: ClassVar[str] = "worker-processes"

    def run(self, work: Assignment, emit: Emit, stop: Callable[[], int]) -> None:
        # Threads by what was asked for, not by what is left: a run that resumes must have as many as it began with.
        processes = min(len(work.jobs), work.limit)
        work = replace(work.divided(work.limit), limit=1, concurrent=processes)
        with work.threads_set(), Workers(processes - 1, work, emit) as workers:
            workers.scheduler.run(stop)


class Worker(NamedTuple):
    process: subprocess.Popen[str]
    errors: IO[str]  # its stderr
    reader: threading.Thread  # of its events
    writing: threading.Lock  # held until it has its assignment


class Workers:
    """Within, so many worker processes share the work with this process's scheduler; afterwards all of them have ended."""

    def __init__(self, count: int, work: Assignment, emit: Emit) -> None:
        self.count, self.work, self.emit = count, work, emit
        self.scheduler = Scheduler(work, self._from_here)
        self.workers: list[Worker] = []
        self.leaving = False

    def __enter__(self) -> Workers:
        try:
            for _ in range(self.count):
                self._start()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)  # ends those that were started
            if isinstance(error, OSError | RuntimeError):  # no process, file or thread to be had
                raise MnemonError(f"no more worker processes can be started ({error}); ask for fewer jobs.") from error
            raise
        return self

    def _start(self) -> None:
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the worker lives
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "mnemon.experiments.pools.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": str(self.work.threads)},
            )
        except OSError:
            errors.close()
            raise
        writing = threading.Lock()
        writing.acquire()
        reader = threading.Thread(target=self._listen, args=(process, errors, writing), daemon=True)
        self.workers.append(Worker(process, errors, reader, writing))
        reader.start()

    def _from_here(self, event: Event) -> None:
        """Pass on an event of this process's scheduler."""
        if isinstance(event, Waiting) and any(worker.process.poll() is None for worker in self.workers):
            return  # for a worker of this command
        self.emit(event)
        if isinstance(event, RunDiverged):
            self._tell_diverged(event.number)

    def _listen(self, process: subprocess.Popen[str], errors: IO[str], writing: threading.Lock) -> None:
        """Pass on the events of a worker. One that fails is reported; its jobs are made by the others."""
        assert process.stdout is not None
        _write(process, self.work.to_json())
        writing.release()
        for line in process.stdout:
            try:
                event = from_json(line)
            except ValueError:  # half a line: it was killed
                continue
            if isinstance(event, RunDiverged):
                self.scheduler.skip(event.number)
                self._tell_diverged(event.number)
            self.emit(event)
        if process.wait() and not self.leaving and process.returncode not in (130, 143):
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [f"code {process.returncode}"])[-1]
            logger.warning(f"a worker process ended early ({last}); the others go on without it")

    def _tell_diverged(self, number: int) -> None:
        """Keep the workers from making a run that diverged once."""
        for worker in self.workers:
            with worker.writing:
                _write(worker.process, str(number))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leaving = True
        for worker in self.workers:
            worker.process.terminate()  # one that still works saves first
        for process, errors, reader, _ in self.workers:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            if reader.ident:  # it was started
                reader.join()
            assert process.stdin is not None
            assert process.stdout is not None
            for pipe in (process.stdin, process.stdout, errors):
                with contextlib.suppress(OSError):
                    pipe.close()


def _write(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # a worker that has ended
        process.stdin.write(line + "\n")
        process.stdin.flush()
