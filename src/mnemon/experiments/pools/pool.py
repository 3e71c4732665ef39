"""What a pool is: a place where jobs run. A `Scheduler` with an `Assignment` does the work there, wherever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from mnemon.experiments.events import Emit
from mnemon.experiments.job import Assignment


class Pool(ABC):
    """Runs the jobs of an assignment. One class in a file of this folder is found by its name."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, work: Assignment, emit: Emit, stop: Callable[[], int]) -> None:
        """Return when `emit` was called with a Finished or RunDiverged for each job; any thread may call it.

        When `stop()` is not 0, the number of a signal: save the active runs and raise Stopped. Whatever happens, nothing
        still runs afterwards.
        """
