"""Jobs run in this process, `limit` at once: what a GPU needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from mnemon.experiments.events import Emit
from mnemon.experiments.job import Assignment
from mnemon.experiments.pools.pool import Pool
from mnemon.experiments.scheduler import Scheduler


class ThisProcess(Pool):
    name: ClassVar[str] = "this-process"

    def run(self, work: Assignment, emit: Emit, stop: Callable[[], int]) -> None:
        work = work.divided(1)
        with work.threads_set():
            Scheduler(work, emit).run(stop)
