"""What a pool is: a place where jobs run. A `Scheduler` with an `Assignment` does the work there, wherever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch

from mnemon.experiments.events import Emit
from mnemon.experiments.job import Assignment
from mnemon.runtime.device import Engine, choose_device

AT_ONCE = 32  # runs on a GPU


class Pool(ABC):
    """Runs the jobs of an assignment. One class in a file of this folder is found by its name."""

    name: ClassVar[str]

    def close(self) -> None:  # noqa: B027 - most pools hold nothing
        """Let go of what the pool is connected to; nothing is asked of it afterwards."""

    def engine(self, device: str, precision: str, deterministic: bool) -> Engine:
        """Where and how its runs are computed; `device` as `choose_device` takes it."""
        return Engine(choose_device(device), precision, deterministic)

    def at_once(self, engine: Engine) -> int:
        """Runs at once where the user does not say how many."""
        return torch.get_num_threads() if engine.device.type == "cpu" else AT_ONCE

    @abstractmethod
    def run(self, work: Assignment, emit: Emit, stop: Callable[[], int]) -> None:
        """Return when `emit` was called with a Finished or RunDiverged for each job; any thread may call it.

        When `stop()` is not 0, the number of a signal: save the active runs and raise Stopped. Whatever happens, nothing
        still runs afterwards.
        """
