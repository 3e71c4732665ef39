"""A worker process: `python -m mnemon.experiments.pools.worker`, started by worker_processes.py."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time

import torch

from mnemon.errors import MnemonError
from mnemon.experiments.events import Event, Message, Stepped, to_json
from mnemon.experiments.job import Assignment
from mnemon.experiments.scheduler import Scheduler
from mnemon.runtime import messages
from mnemon.runtime.signals import Stopped, watched

OFTEN = 0.2  # seconds between two events of steps


class Reporter(logging.Handler):
    """Prints events for the parent, a JSON line each; so are messages, which the parent logs."""

    def __init__(self) -> None:
        super().__init__()
        self.next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        self(Message(record.name, record.levelno, record.getMessage()))

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped):
            if time.monotonic() < self.next:
                return
            self.next = time.monotonic() + OFTEN
        print(to_json(event), flush=True)


def main() -> None:
    work = Assignment.from_json(sys.stdin.readline())
    torch.set_num_threads(work.threads)
    reporter = Reporter()
    scheduler = Scheduler(work, reporter)
    with watched(once=[signal.SIGTERM]) as stop, work.engine.in_use(), messages.handled_by(reporter):
        threading.Thread(target=_listen, args=(scheduler,), daemon=True).start()  # now that its signal is noted
        scheduler.run(stop, wait=False)


def _listen(scheduler: Scheduler) -> None:
    """Read which jobs diverged in other processes; when the parent ends, so does our stdin."""
    for line in sys.stdin:
        scheduler.skip(int(line))
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    try:
        main()
    except Stopped as stopped:
        code = 128 + stopped.signal_number
    except MnemonError as error:
        print(error, file=sys.stderr)
        code = 2
    except BrokenPipeError:  # the parent is gone
        code = 141
    else:
        code = 0
    with contextlib.suppress(OSError):
        sys.stdout.close()
    os._exit(code)
