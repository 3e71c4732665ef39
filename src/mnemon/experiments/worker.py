"""A worker process: `python -m mnemon.experiments.worker`, started by crew.py."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch

from mnemon.errors import MnemonError
from mnemon.experiments.progress import Progress
from mnemon.experiments.records import Record
from mnemon.experiments.spec import Spec
from mnemon.experiments.work import Work
from mnemon.runtime.device import Engine
from mnemon.runtime.signals import Stopped, watched

OFTEN = 0.2  # seconds between two words about the same run's steps


class Told(Progress):
    """Progress told to the parent, a JSON line each."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.next = 0.0

    def tell(self, what: str, *arguments: Any) -> None:
        print(json.dumps([what, arguments]), flush=True)

    def start(self, key: str, name: str, position: int, total: int) -> None:
        self.tell("start", key, name, position, total)

    def step(self, key: str, position: int) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + OFTEN
            self.tell("step", key, position)

    def accuracy(self, by_classifier: dict[str, list[float | None]]) -> None:
        self.tell("accuracy", by_classifier)

    def finished(self, number: int, key: str, records: list[Record], *, already: bool = False) -> None:
        if not already:
            self.tell("finished", number, key, records)

    def diverged(self, number: int, key: str, name: str, why: str) -> None:
        self.tell("diverged", number, key, name, why)

    def say(self, line: str) -> None:
        self.tell("say", line)


def main() -> None:
    job = json.loads(sys.stdin.readline())
    torch.set_num_threads(job["threads"])
    engine = Engine(torch.device(job["device"]), job["precision"], job["deterministic"])
    specs = [Spec(**(spec | {"classifiers": tuple(spec["classifiers"])})) for spec in job["specs"]]
    work = Work(specs, Path(job["out"]), engine, job["every"], Told(), job["processes"])
    with watched(once=[signal.SIGTERM]) as stop, engine.in_use():
        threading.Thread(target=_listen, args=(work,), daemon=True).start()  # now that its signal is heard
        work.take_finished()
        work.run(1, stop, wait=False)


def _listen(work: Work) -> None:
    """Which runs diverged elsewhere; and when the parent dies, our stdin ends."""
    for line in sys.stdin:
        work.diverged[int(line)] = "elsewhere"
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        main()
    except Stopped as stopped:
        code = 128 + stopped.signal_number
    except MnemonError as error:
        print(error, file=sys.stderr)
        code = 2
    except BrokenPipeError:  # nobody listens any more
        code = 141
    else:
        code = 0
    with contextlib.suppress(OSError):
        sys.stdout.close()
    os._exit(code)
