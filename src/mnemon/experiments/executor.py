"""How runs advance: step by step on the calling thread; by CUDA graphs, launched and waited for later; several as one stack."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mnemon.experiments.measures import learn_tested
from mnemon.experiments.run import PendingEvaluation, Run
from mnemon.learning.backbones import MLP
from mnemon.learning.captured import members
from mnemon.learning.stacked import can_stack
from mnemon.runtime.threads import torch_threads


def executor_for(run: Run) -> Executor:
    """A method that trains nothing has no steps to capture: its blocks are products, made one by one on any device. Nor are
    steps captured between which predictions are asked for."""
    captured = run.learner.device.type == "cuda" and run.choice.capturable and "prequential" not in run.measures
    return AsyncExecutor(run) if captured else Executor(run)


class Executor:
    """Advances one run: `launch` and `push` start what the device can do alone, `settle` completes it.

    This one has no such device: `settle` makes the steps, and evaluates, when it is called.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def advance(self, proceed: Callable[[], bool] = lambda: True) -> None:
        """Learn to the end of the current task and evaluate there, or until `proceed` (asked after each step) is False."""
        evaluated = len(self.run.rows)
        while len(self.run.rows) == evaluated:
            self.launch()
            if not self.settle(proceed):
                return

    def launch(self) -> None:
        """Start the next steps, where the device works asynchronously."""

    def push(self) -> bool:
        """Launch more of the steps that were started. True while the device has work of this run to do."""
        return False

    def settle(self, proceed: Callable[[], bool] = lambda: True) -> bool:
        """Complete the steps that were launched, or make them now; then evaluate if a task ends with them.

        False: `proceed` was False before all of them were made.
        """
        run, start = self.run, time.perf_counter()
        block = run.next_batches()
        if "prequential" in run.measures:
            learned = learn_tested(run, proceed)
        else:
            learned = run.learner.learn(run.scenario.x, run.y, block, proceed)
        run.count_steps(learned, start)
        if learned < len(block):
            return False
        if run.at_task_end:
            start = time.perf_counter()
            run.add_evaluation(run.evaluate(), start)
        return True

    @property
    def evaluating(self) -> bool:
        """Whether an evaluation was launched and not read yet."""
        return False

    def rest(self) -> None:
        """Wait until nothing that was launched is incomplete."""

    def began(self) -> float:
        """When the last steps began, on a device that works asynchronously; else now."""
        return time.monotonic()

    def stacked_with(self, other: Executor) -> bool:
        """Whether the two advance as one stack, or are the same."""
        return self is other

    def withdraw(self) -> None:
        """Take back steps that were submitted and not begun."""

    def close(self) -> None:
        """Wait for what was launched, and free what the device holds for it."""


class AsyncExecutor(Executor):
    """Advances one run as a member of a GraphExecutor, which may have other members: then the runs are stacked.

    Evaluations, too, are launched, and read when `settle` is called again. `proceed` is asked once for all steps.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        (self.member,) = members([run.learner], run.scenario.x, [run.y])
        self.launched: NDArray[np.int64] | None = None  # batches
        self.evaluation: dict[str, PendingEvaluation] | None = None
        self.since = 0.0  # when either was launched

    def launch(self) -> None:
        if self.launched is None and self.evaluation is None and not self.run.finished:
            self.launched, self.since = self.run.next_batches(), time.perf_counter()
            self.member.begin(self.launched)
            self.member.push()

    def push(self) -> bool:
        return self.member.push() or self.member.busy()

    def settle(self, proceed: Callable[[], bool] = lambda: True) -> bool:
        if self.evaluation is not None:
            self.member.wait()
            self.run.add_evaluation(self.evaluation, self.since)
            self.evaluation = None
            return proceed()
        self.launch()
        assert self.launched is not None, "a finished run does not advance"
        block, self.launched = self.launched, None
        self.member.wait()
        self.run.count_steps(len(block), self.since)
        if self.run.at_task_end:
            self.since = time.perf_counter()
            with self.member.aside():
                self.evaluation = self.run.evaluate()
        return proceed()

    @property
    def evaluating(self) -> bool:
        return self.evaluation is not None

    def rest(self) -> None:
        if self.launched is not None and self.member.withdraw():
            self.launched = None
        while self.launched is not None or self.evaluation is not None:
            self.settle()

    def began(self) -> float:
        return self.member.executor.began

    def stacked_with(self, other: Executor) -> bool:
        return isinstance(other, AsyncExecutor) and self.member.executor is other.member.executor

    def withdraw(self) -> None:
        self.member.withdraw()

    def close(self) -> None:
        self.withdraw()
        self.member.wait()
        self.member.leave()


def stack(executors: Sequence[AsyncExecutor]) -> None:
    """Advance these runs, of one kind and at the same step, as one from here on; where their network can be stacked."""
    runs = [executor.run for executor in executors]
    if len(runs) > 1 and can_stack(runs[0].learner):
        for executor in executors:
            executor.member.leave()  # frees its tensors now; the garbage collector would do so much later
        together = members([run.learner for run in runs], runs[0].scenario.x, [run.y for run in runs])
        for executor, member in zip(executors, together, strict=True):
            executor.member = member


def threads(run: Run) -> contextlib.AbstractContextManager[None]:
    """Within, a run of the MLP has one thread: its step is too small to share, and a second thread would mostly wait."""
    return torch_threads(1 if isinstance(run.learner.net.backbone, MLP) else None)
