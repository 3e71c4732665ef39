"""Schedules the jobs of one process: claims each, advances the active runs in turn, writes records.

Jobs that another process has claimed are skipped, and tried again later.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

import torch

from mnemon.errors import Diverged, MnemonError
from mnemon.experiments.active import ActiveRun, Clock, JobLock
from mnemon.experiments.events import Emit, Finished, RunDiverged, Waiting
from mnemon.experiments.executor import AsyncExecutor, stack
from mnemon.experiments.job import Assignment, Job
from mnemon.experiments.recording import Recorded
from mnemon.runtime.signals import Stopped

logger = logging.getLogger(__name__)
STACK = 16  # runs in a stack, at most: several stacks side by side fill the device better than one large stack


class Scheduler:
    """The state is the queue of jobs, the active runs and a limit on their number; a method for each transition."""

    def __init__(self, work: Assignment, emit: Emit) -> None:
        self.out, self.engine, self.limit, self.concurrent = work.out, work.engine, work.limit, work.concurrent
        self.emit = emit
        self.queue = deque(by_kind(work.jobs) if work.engine.stacks else work.jobs)
        self.preparing: list[ActiveRun] = []  # not launched yet
        self.active: deque[ActiveRun] = deque()
        self.skipped: set[int] = set()  # numbers of jobs that diverged, here or in another process
        self.clock, self.recorded = Clock(work.checkpoint_every), Recorded(work.out)
        self.stop: Callable[[], int] = lambda: 0

    def run(self, stop: Callable[[], int], *, wait: bool = True) -> None:
        """Keep up to `limit` runs active until all jobs are done; each in turn makes its next steps.

        Jobs claimed by other processes are waited for, unless `wait` is False.
        """
        self.stop = stop
        try:
            while self.queue or self.active:
                limit = self.limit
                self._fill()
                if stop():
                    self._save_all()
                    raise Stopped(stop())
                if self.active:
                    self._advance(self.active.popleft())
                elif self.queue and limit == self.limit:
                    if not wait:
                        return
                    self.emit(Waiting(len(self.queue)))
                    time.sleep(0.1)
        finally:
            self._close([*self.active, *self.preparing])

    def skip(self, number: int) -> None:
        """Do not begin this job: it diverged in another process."""
        self.skipped.add(number)

    def _fill(self) -> None:
        """Begin jobs up to the limit: where runs are stacked, all of the next kind at once."""
        left = len(self.queue)
        while left and not self.stop():
            alike = self._alike(min(left, self.limit, STACK))
            if self.active and (len(self.active) + alike > self.limit or self._must_wait(self.queue[0])):
                break
            limit = self.limit
            for _ in range(alike):
                if self.stop() or self.limit < limit:
                    break
                left -= 1
                self._begin(self.queue.popleft())
                self._advance_all()  # the device must not wait while the next runs are prepared
            if self.stop():  # what has made no step yet has nothing to save
                break
            self._launch()
            if self.limit < limit:  # the queue is not what was counted
                break

    def _alike(self, most: int) -> int:
        """How many of the queued jobs, from the first on, are of one kind; 1 where runs are not stacked."""
        if not self.engine.stacks or not self.queue[0].captured:
            return 1
        first = self.queue[0].kind
        return len(list(itertools.islice(itertools.takewhile(lambda job: job.kind == first, self.queue), most)))

    def _must_wait(self, job: Job) -> bool:
        """Runs that make their steps when it is their turn gain nothing from others of their kind beside them: one of them is
        active at a time, so that it finishes before the next one takes memory."""
        return self.engine.stacks and not job.captured and any(not active.job.captured for active in self.active)

    def _begin(self, job: Job) -> None:
        """Claim the job and prepare its run, unless it is done or another process has claimed it."""
        if job.number in self.skipped:
            return
        if found := self.recorded.of(job):
            self.emit(Finished(job.number, found))
            return
        claim = JobLock.acquire(job, self.out)
        if claim is None:
            self.queue.append(job)
            return
        full = False
        try:
            found = self.recorded.of(job)  # another process may have finished it in between
            if found:
                claim.clear()
                claim.release()
            else:
                self.preparing.append(ActiveRun(claim, self.engine, self.clock, self.emit))
        except torch.OutOfMemoryError:
            full = True
        except BaseException:
            claim.release()
            raise
        if found:
            self.emit(Finished(job.number, found))
        if full:  # after the handler: the error refers to tensors
            claim.release()
            self._requeue([job])

    def _launch(self) -> None:
        """Launch the prepared runs; those of one kind at the same step as a stack."""
        groups: dict[tuple[object, ...], list[ActiveRun]] = {}
        for active in self.preparing:
            alike = active.job.kind, tuple(active.run.ends), active.run.position
            groups.setdefault(alike, []).append(active)
        self.active.extend(self.preparing)
        self.preparing = []
        for group in groups.values():
            full = False
            try:
                if self.engine.stacks:
                    stack([active.executor for active in group if isinstance(active.executor, AsyncExecutor)])
                for active in group:
                    active.executor.launch()
            except torch.OutOfMemoryError:
                full = True
            if full:
                self._evict(group)

    def _advance_all(self) -> None:
        for active in list(self.active):
            if active in self.active and not self.stop():
                self.active.remove(active)
                self._advance(active)

    def _advance(self, active: ActiveRun) -> None:
        """Give a run its turn; it goes to the end of the line."""
        self.active.append(active)
        active.concurrent = max(active.concurrent, len(self.active), self.concurrent)
        full = False
        try:
            if active.advance(self.stop):
                made = active.finish()
                self._remove(active)
                self.emit(Finished(active.job.number, made))
        except Diverged as error:  # the others continue
            self.skip(active.job.number)
            # Before the lock is released: another process would claim the job and make the run again.
            self.emit(RunDiverged(active.job.number, active.job.title, f"seed {active.job.spec.seed}: {error}"))
            self._remove(active)
        except torch.OutOfMemoryError:
            full = True
        if full:
            self._evict([other for other in self.active if other.executor.stacked_with(active.executor)])

    def _evict(self, runs: list[ActiveRun]) -> None:
        """The device's memory is full: put these back into the queue. They resume from their last checkpoints."""
        for active in runs:
            self.active.remove(active)
        self._close(runs)
        self._requeue([active.job for active in runs])

    def _requeue(self, jobs: list[Job]) -> None:
        """Lower the limit to the runs that remain active, or half of those that did not fit together."""
        self.queue.extendleft(jobs)
        gc.collect()
        torch.cuda.empty_cache()
        self.limit = min(self.limit, max(len(self.active) + len(self.preparing), len(jobs) // 2))
        if self.limit == 0:
            raise MnemonError(f"not even one run of {jobs[0].spec.method} fits into the memory of the device.")
        logger.warning(f"the device's memory is full: going on with {self.limit} runs at once")

    def _save_all(self) -> None:
        for active in self.active:
            with contextlib.suppress(Diverged):  # found again when it resumes
                active.stop()

    def _remove(self, active: ActiveRun) -> None:
        self.active.remove(active)
        active.close()

    def _close(self, runs: list[ActiveRun]) -> None:
        for active in runs:
            active.executor.withdraw()  # all of them first: one that leaves must not start the others
        for active in runs:
            active.close()


def by_kind(jobs: Sequence[Job]) -> list[Job]:
    """Jobs of one kind behind each other, the kinds in the order of their first jobs; those that run one by one come last, so
    that the others are active beside them."""
    first: dict[str, int] = {}
    for place, job in enumerate(jobs):
        first.setdefault(job.kind, place)
    return sorted(jobs, key=lambda job: (not job.captured, first[job.kind]))
