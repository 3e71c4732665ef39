"""Jobs run on a Ray cluster: the one RAY_ADDRESS names, or one of this machine.

This process, the driver, owns the folder: it holds the locks, and writes the checkpoints, details and records that the tasks
(ray_task.py) send as values, so no file system is shared. On a CPU a task makes one run, on a GPU a stack of them. When a
task's process or machine dies, the driver hands what it had not finished to another task, with the newest checkpoints. Ray
itself repeats nothing: its repetition of a generator drops as many values as came before, which here may be other ones.
"""

from __future__ import annotations

import contextlib
import logging
import math
import platform
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from mnemon import checkpoint, files
from mnemon.data import store
from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.active import JobLock
from mnemon.experiments.events import Emit, Finished, RunDiverged, Saved, Waiting, from_json
from mnemon.experiments.job import Assignment, Job
from mnemon.experiments.pools import ray_task
from mnemon.experiments.pools.pool import AT_ONCE, Pool
from mnemon.experiments.recording import Recorded, versions, write_made
from mnemon.experiments.scheduler import by_kind
from mnemon.runtime import ray_cluster
from mnemon.runtime.device import Engine, choose_device
from mnemon.runtime.signals import Stopped

logger = logging.getLogger(__name__)
PATIENCE = 60.0  # seconds the tasks have to save their runs
DEATHS = 5  # of a run's processes, one after the other without a checkpoint between them
LOOK = 0.2  # seconds to wait for a value before signals are looked at
REFRESH = 2.0  # seconds for which the size of the cluster is taken as known
NO_ROOM = "the Ray cluster has no free {} for a run so far; `ray status` shows what it has"


class Ray(Pool):
    name: ClassVar[str] = "ray"

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self._ray: Any = None

    def close(self) -> None:
        self._ray = None
        self._held.close()

    def _connected(self) -> Any:
        if self._ray is None:
            self._ray = self._held.enter_context(ray_cluster.connected())
        return self._ray

    def engine(self, device: str, precision: str, deterministic: bool) -> Engine:
        """auto: GPUs where the cluster has some. The driver needs none: it asks one of theirs for its name."""
        if device != "auto" and device.split(":")[0] not in ("cpu", "cuda"):
            raise MnemonError(f"on Ray a device is auto, cpu or cuda, not {device!r}.")
        ray_cluster.import_ray()  # the first thing to be said if it is missing
        if device.split(":")[0] == "cpu" or (not ray_cluster.is_remote() and choose_device(device).type == "cpu"):
            return Engine(torch.device("cpu"), precision, deterministic)
        ray = self._connected()
        if not ray.cluster_resources().get("GPU"):
            if device != "auto":
                raise MnemonError("no machine of the Ray cluster has a GPU; --device cpu takes their cores.")
            return Engine(torch.device("cpu"), precision, deterministic)
        asked = ray.remote(num_gpus=1)(_device_name).remote()
        if not ray.wait([asked], timeout=PATIENCE)[0]:
            logger.warning(NO_ROOM.format("GPU"))
        try:
            machine, name = ray.get(asked)
        except ray.exceptions.RayError as error:
            raise ray_cluster.explained(error) from error
        if name is None:
            raise MnemonError(
                f"the machine {machine} of the Ray cluster has a GPU that its torch cannot use; install a torch for CUDA "
                "there, or give --device cpu."
            )
        return Engine(torch.device("cuda"), precision, deterministic, elsewhere=name)

    def resource(self, engine: Engine) -> str:
        """What a task has one of, and no other task with it."""
        return "GPU" if engine.device.type == "cuda" else "CPU"

    def at_once(self, engine: Engine) -> int:
        return sys.maxsize  # as many as the cluster has room for

    def run(self, work: Assignment, emit: Emit, stop: Callable[[], int]) -> None:
        remote = ray_cluster.is_remote()
        driver = _Driver(self._connected(), work, emit, self.resource(work.engine))
        if remote:
            driver.offer_datasets()
        driver.run(stop)


def _device_name() -> tuple[str, str | None]:
    """The machine and its GPU; None where torch finds none."""
    return platform.node(), Engine(torch.device("cuda")).name if torch.cuda.is_available() else None


@dataclass(eq=False)
class _Task:
    """A task under way. Ray gives its values in the order in which they were sent."""

    values: Any
    claims: dict[int, JobLock] = field(default_factory=dict)  # of the jobs it has not ended yet
    heard: bool = False  # a value came


class _Driver:
    """Submits tasks, writes what they send, and submits again what died with them."""

    def __init__(self, ray: Any, work: Assignment, emit: Emit, resource: str) -> None:
        self.ray, self.emit, self.resource = ray, emit, resource
        self.work = replace(work, threads=1)  # where runs are made on a CPU
        self.queue = deque(by_kind(work.jobs) if work.engine.stacks else work.jobs)
        self.tasks: list[_Task] = []
        self.recorded = Recorded(work.out)
        self.deaths: Counter[int] = Counter()
        self.given_up: dict[str, str] = {}  # run → why
        self.datasets: dict[str, Any] = {}
        self._size, self._asked = 1, -math.inf
        self._quiet_since, self._told = time.monotonic(), False
        gpus = int(resource == "GPU")
        self.together = min(AT_ONCE, math.ceil(len(work.jobs) / self.slots())) if gpus else 1
        self.make_runs = ray.remote(num_returns="streaming", max_retries=0, num_cpus=1, num_gpus=gpus)(
            ray_task.make_runs
        )
        self.switch = ray.remote(num_cpus=0, max_restarts=-1)(_switch_class()).remote()

    def offer_datasets(self) -> None:
        """Put the datasets into Ray's object store: a machine that lacks one takes it from there."""
        for name in dict.fromkeys(protocol.parse(job.stream).dataset for job in self.work.jobs):
            if packed := store.pack(name):
                self.datasets[name] = self.ray.put(packed)

    def slots(self) -> int:
        """Tasks for which the cluster has room, machines that have joined since included; 1 where there is none yet."""
        if time.monotonic() > self._asked + REFRESH:
            room = self.ray.cluster_resources().get(self.resource, 0)
            self._size, self._asked = max(1, int(room)), time.monotonic()
        return self._size

    def run(self, stop: Callable[[], int]) -> None:
        try:
            while self.queue or self.tasks:
                if stop():
                    raise Stopped(stop())
                self._submit_all()
                if self.tasks:
                    self._receive()
                    self._tell_of_no_room()
                elif self.queue:
                    self.emit(Waiting(len(self.queue)))
                    time.sleep(LOOK)
        finally:
            self._end()
        for key, why in self.given_up.items():
            raise MnemonError(
                f"{len(self.given_up)} of {len(self.work.jobs)} runs have no record, because their processes on Ray died "
                f"{DEATHS} times; the first is {key} ({why}). The same command continues from their checkpoints."
            )

    def _tell_of_no_room(self) -> None:
        """Say once that no task has begun: Ray would keep them waiting in silence."""
        if any(task.heard for task in self.tasks):
            self._quiet_since = time.monotonic()
        elif time.monotonic() > self._quiet_since + PATIENCE and not self._told:
            logger.warning(NO_ROOM.format(self.resource))
            self._told = True

    # --- submitting

    def _submit_all(self) -> None:
        """Submit what there is room for, and no more: other commands may share the folder and take what is left."""
        for _ in range(len(self.queue)):
            under_way = sum(len(task.claims) for task in self.tasks)
            if not self.queue or len(self.tasks) >= self.slots() or under_way >= self.work.limit:
                return
            claims: dict[int, JobLock] = {}
            for _ in range(min(len(self.queue), self.together, self.work.limit - under_way)):
                alone = self.deaths[self.queue[0].number] >= 2  # it, or one beside it, kills its process
                if alone and claims:
                    break
                job = self.queue.popleft()
                if claim := self._claim(job):
                    claims[job.number] = claim
                    if alone:
                        break
            if claims:
                self._submit(claims)

    def _claim(self, job: Job) -> JobLock | None:
        """The lock of a job, unless it is done or another process has it; as `Scheduler` does."""
        claim = None
        found = self.recorded.of(job)
        if not found:
            claim = JobLock.acquire(job, self.work.out)
            if claim is None:
                self.queue.append(job)
                return None
            found = self.recorded.of(job)
        if found and claim:
            claim.clear()
            claim.release()
        if found:
            self.emit(Finished(job.number, found))
            return None
        return claim

    def _submit(self, claims: dict[int, JobLock]) -> None:
        task = _Task(None, claims)
        self.tasks.append(task)  # first: its locks are released whatever happens
        jobs = tuple(claim.job for claim in claims.values())
        concurrent = min(len(self.work.jobs), self.work.limit, self.slots() * self.together)
        part = replace(self.work, jobs=jobs, limit=len(jobs), concurrent=concurrent)
        packed = {number: checkpoint.pack(claim.folder) for number, claim in claims.items()}
        task.values = self.make_runs.remote(
            versions(),
            part.to_json(),
            {job.number: job.key for job in jobs},
            {number: tuple(files) for number, files in packed.items() if files},
            self.datasets,
            self.switch,
        )

    # --- receiving

    def _receive(self) -> None:
        """Take a value of a task, if one comes in time."""
        ready, _ = self.ray.wait([task.values for task in self.tasks], num_returns=1, timeout=LOOK)
        for task in [task for task in self.tasks if any(task.values is values for values in ready)]:
            try:
                item = self.ray.get(next(task.values))
            except StopIteration:
                self._ended(task, "its task ended early")
            except Exception as error:
                if not ray_cluster.node_died(self.ray, error):
                    raise ray_cluster.explained(error) from error
                self._ended(task, str(error).strip().splitlines()[0])
            else:
                task.heard = True
                self.tasks.remove(task)
                self.tasks.append(task)  # the others' turn: Ray looks at the first ones first
                self._take(task, *item)

    def _take(self, task: _Task, kind: str, *values: Any) -> None:
        match kind, values:
            case "saved", (number, *packed):
                self.deaths.pop(number, None)  # it gets on
                folder = task.claims[number].folder
                checkpoint.unpack(folder, checkpoint.Packed(*packed))
                self.emit(Saved(number, str(folder)))
            case "finished", (line, details):
                event = from_json(line)
                assert isinstance(event, Finished)
                write_made(self.work.out, files.parsed(details), event.records)
                claim = task.claims.pop(event.number)
                claim.clear()
                claim.release()
                self.emit(event)
            case "refused", (sentence,):
                raise MnemonError(sentence)
            case _, (line,):
                event = from_json(line)
                self.emit(event)
                if isinstance(event, RunDiverged):  # told before its lock is released, as in a scheduler
                    task.claims.pop(event.number).release()

    def _ended(self, task: _Task, why: str) -> None:
        """What a task has left undone goes back into the queue."""
        self.tasks.remove(task)
        left = [claim.job for claim in task.claims.values()]
        self._release(task)
        if not left:
            return
        first = f"{left[0].title}, seed {left[0].spec.seed}" + (f" and {len(left) - 1} more" if len(left) > 1 else "")
        logger.warning(f"a process on Ray died ({why}); going on from the last checkpoint: {first}")
        for job in left:
            self.deaths[job.number] += 1
            if self.deaths[job.number] < DEATHS:
                self.queue.appendleft(job)
            else:
                self.given_up[job.key] = why

    def _release(self, task: _Task) -> None:
        for claim in task.claims.values():
            claim.release()
        task.claims.clear()

    # --- ending

    def _end(self) -> None:
        """Let the tasks that are left save and send their runs; those that take too long are killed."""
        try:
            if self.tasks:
                self._stop_tasks()
        finally:
            for task in self.tasks:
                if task.values is not None:
                    self.ray.cancel(task.values, force=True)
                self._release(task)
            self.tasks = []
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.kill(self.switch)

    def _stop_tasks(self) -> None:
        self.switch.set.remote()
        for task in [task for task in self.tasks if not task.heard]:  # waits for room, or has nothing to save yet
            self._drop(task)
        end = time.monotonic() + PATIENCE
        while self.tasks and time.monotonic() < end:
            ready, _ = self.ray.wait([task.values for task in self.tasks], num_returns=1, timeout=LOOK)
            for task in [task for task in self.tasks if any(task.values is values for values in ready)]:
                try:
                    kind, *values = self.ray.get(next(task.values))
                    if kind in ("saved", "finished"):
                        self._take(task, kind, *values)
                except (StopIteration, self.ray.exceptions.RayError):
                    self._drop(task)

    def _drop(self, task: _Task) -> None:
        self.tasks.remove(task)
        if task.values is not None:
            self.ray.cancel(task.values, force=True)
        self._release(task)


def _switch_class() -> type[Any]:
    """The class of an actor that tells tasks to stop. Made in a function, so that Ray sends its code: its process then need
    not import mnemon and torch."""

    class Switch:
        def __init__(self) -> None:
            self.on = False

        def set(self) -> None:
            self.on = True

        def is_set(self) -> bool:
            return self.on

    return Switch
