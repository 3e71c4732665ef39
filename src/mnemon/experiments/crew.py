"""Worker processes beside this one, for a machine without a GPU: they make runs of the same folder.

The folder is all they share: which runs are taken, done or open is settled there (work.py), as between strangers. A worker
(worker.py) is told what to do in one JSON line on its stdin, then the numbers of runs that diverged elsewhere; it tells what
it does in JSON lines on its stdout, for the progress bars. When its stdin ends, it saves and stops: none outlives its parent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import IO

from mnemon.errors import MnemonError
from mnemon.experiments.work import Work

PATIENCE = 60.0  # seconds a worker has to save its runs


class Crew:
    """Within, `hands` workers share the work, each with so many threads; afterwards all of them have ended."""

    def __init__(self, hands: int, work: Work, threads: int) -> None:
        self.hands, self.work = hands, work
        self.job = {
            "specs": [dataclasses.asdict(spec) for spec in work.specs],
            "out": str(work.out),
            "device": str(work.engine.device),
            "precision": work.engine.precision,
            "deterministic": work.engine.deterministic,
            "every": work.every,
            "processes": work.processes,
            "threads": threads,
        }
        self.members: list[tuple[subprocess.Popen[str], IO[str], threading.Thread]] = []
        self.writing: dict[int, threading.Lock] = {}  # by process number
        self.leaving = False

    def __enter__(self) -> Crew:
        try:
            for _ in range(self.hands):
                self._hire()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)  # nobody else ends those that were started
            if isinstance(error, OSError | RuntimeError):  # no process, no file, no thread to be had
                raise MnemonError(f"no more worker processes can be started ({error}); ask for fewer jobs.") from error
            raise
        self.work.tell, self.work.helped = self._tell, self._alive
        return self

    def _hire(self) -> None:
        words = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the worker lives
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "mnemon.experiments.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": str(self.job["threads"])},
            )
        except OSError:
            words.close()
            raise
        self.writing[process.pid] = threading.Lock()
        self.writing[process.pid].acquire()  # until it has its job
        reader = threading.Thread(target=self._listen, args=(process, words), daemon=True)
        self.members.append((process, words, reader))
        reader.start()

    def _alive(self) -> bool:
        return any(process.poll() is None for process, _, _ in self.members)

    def _write(self, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # a worker that is gone needs no words
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def _tell(self, number: int) -> None:
        """Run `number` diverged: nobody else has to find out."""
        for process, _, _ in self.members:
            with self.writing[process.pid]:
                self._write(process, str(number))

    def _listen(self, process: subprocess.Popen[str], words: IO[str]) -> None:
        """Pass on what a worker tells. One that breaks is named and left behind: its runs are as good as not taken."""
        assert process.stdout is not None
        show = self.work.show
        self._write(process, json.dumps(self.job))
        self.writing[process.pid].release()
        for line in process.stdout:
            try:
                what, arguments = json.loads(line)
            except ValueError:  # half a line: it was killed
                continue
            if what == "diverged":
                self.work.diverged[arguments[0]] = arguments[-1]
                self._tell(arguments[0])
            getattr(show, what)(*arguments)
        if process.wait() and not self.leaving and process.returncode not in (130, 143):
            words.seek(0)
            last = (words.read().strip().splitlines() or [f"code {process.returncode}"])[-1]
            show.say(f"a worker process ended early ({last}); the others go on without it")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leaving = True
        for process, _, _ in self.members:
            process.terminate()  # one that still works saves first
        for process, words, reader in self.members:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
            if reader.ident:  # it was started
                reader.join()
            assert process.stdin is not None
            assert process.stdout is not None
            for pipe in (process.stdin, process.stdout, words):
                with contextlib.suppress(OSError):
                    pipe.close()
