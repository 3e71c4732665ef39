"""The runs a process works on in a folder: taken in hand, given their turns, ended; those in other hands are left alone."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mnemon.errors import Diverged, MnemonError
from mnemon.experiments import protocol, records
from mnemon.experiments.lane import Clock, Lane
from mnemon.experiments.progress import Progress
from mnemon.experiments.records import Record
from mnemon.experiments.run import Run, Task, dataset_checksum, named_task, stack
from mnemon.experiments.spec import Spec
from mnemon.learning.build import Choice
from mnemon.runtime.device import Engine
from mnemon.runtime.signals import Stopped

# Runs that take their steps as one. More of a kind go side by side with these, which fills the device better than one stack.
STACK = 16


class Work:
    """Specs to be made in a folder, and how far they are."""

    def __init__(
        self, specs: Sequence[Spec], out: Path, engine: Engine, every: float, show: Progress, processes: int = 1
    ) -> None:
        self.specs, self.out, self.engine, self.every, self.show = specs, out, engine, every, show
        self.clock = Clock(every)
        self.processes = processes  # that work on this folder, this one included
        self.choices = [spec.choice() for spec in specs]
        self.names = [str(protocol.parse(spec.stream)) for spec in specs]
        self.checksums = [dataset_checksum(name, engine.device) for name in self.names]
        self.keys = [
            spec.key(choice, name, checksum, engine.identity())
            for spec, choice, name, checksum in zip(specs, self.choices, self.names, self.checksums, strict=True)
        ]
        self.kinds = [_kind(spec, choice) for spec, choice in zip(specs, self.choices, strict=True)]
        self.waiting = deque(range(len(specs)))
        self.lanes: deque[Lane] = deque()  # under way
        self.fresh: list[Lane] = []  # taken in hand, not launched yet
        self.results: dict[int, list[Record]] = {}
        self.diverged: dict[int, str] = {}  # those of our other processes too
        self.tell: Callable[[int], None] = lambda number: None  # of a run that diverged here, to the others
        self.helped: Callable[[], bool] = lambda: False  # whether other processes of ours are at work
        self._seen: tuple[tuple[int, int], list[Record]] | None = None

    def take_finished(self) -> int:
        """Take the records that are there already. Returns how many runs are left."""
        there = self._records()
        for i in range(len(self.specs)):
            if found := self._finished(i, there):
                Lane.clear_left(self.out, self.keys[i], self._classifiers(i))
                self._done(i, found, already=True)
        left = [i for i in self.waiting if i not in self.results]
        if self.engine.stacks:  # those of a kind behind each other
            first: dict[str, int] = {}
            for place, i in enumerate(left):
                first.setdefault(self.kinds[i], place)
            left.sort(key=lambda i: first[self.kinds[i]])
        self.waiting = deque(left)
        return len(left)

    def run(self, at_once: int, stop: Callable[[], int], *, wait: bool = True) -> None:
        """Keep `at_once` runs under way until all are done; each in turn gets its next steps.

        Runs that are in other hands are waited for, unless told not to.
        """
        try:
            while self.waiting or self.lanes:
                asked, at_once = at_once, self._take(at_once, stop)
                if stop():
                    self._stop(stop)
                if self.lanes:
                    at_once = self._go_on(self.lanes.popleft(), at_once, stop)
                elif self.waiting and asked == at_once:
                    if not wait:
                        return
                    if not self.helped():
                        self.show.wait(len(self.waiting))
                    time.sleep(0.1)
        finally:
            self._close([*self.lanes, *self.fresh])

    def _take(self, at_once: int, stop: Callable[[], int]) -> int:
        """Take runs in hand while there is room: where runs of a kind are stacked, for all of the next kind at once.

        Returns how many there may be from now on.
        """
        there = self._records() if self.waiting and len(self.lanes) < at_once else []
        left = len(self.waiting)
        while left and not stop():
            alike = self._alike(min(left, at_once, STACK))
            if self.lanes and len(self.lanes) + alike > at_once:
                break
            asked = at_once
            for _ in range(alike):
                if stop() or at_once < asked:
                    break
                left -= 1
                at_once = self._begin(self.waiting.popleft(), there, at_once)
                at_once = self._turns(at_once, stop)
            if stop():  # what has made no step yet has nothing to save
                break
            at_once = self._launch(at_once)
            if at_once < asked:  # what is waiting now is not what was counted
                break
        return at_once

    def _turns(self, at_once: int, stop: Callable[[], int]) -> int:
        """A turn for each run under way: the device must not wait while the next runs are made ready."""
        for lane in list(self.lanes):
            if lane in self.lanes and not stop():
                self.lanes.remove(lane)
                at_once = self._go_on(lane, at_once, stop)
        return at_once

    def _alike(self, most: int) -> int:
        """How many of the waiting runs, from the first on, are of one kind; 1 where runs are not stacked."""
        if not self.engine.stacks:
            return 1
        first = self.kinds[self.waiting[0]]
        alike = itertools.takewhile(lambda i: self.kinds[i] == first, self.waiting)
        return len(list(itertools.islice(alike, most)))

    def _launch(self, at_once: int) -> int:
        """The first steps of the fresh runs; those of one kind with the same steps before them as a stack."""
        groups: dict[tuple[Any, ...], list[Lane]] = {}
        for lane in self.fresh:
            assert lane.going is not None
            alike = self.kinds[lane.number], tuple(lane.going.ends), lane.going.position
            groups.setdefault(alike, []).append(lane)
        self.lanes.extend(self.fresh)
        self.fresh = []
        for lanes in groups.values():
            runs = [lane.going for lane in lanes if lane.going is not None]
            try:
                if self.engine.stacks:
                    stack(runs)
                for run in runs:
                    run.launch()
            except torch.OutOfMemoryError:
                at_once = min(at_once, self._no_room(lanes))
        return at_once

    def _begin(self, i: int, there: list[Record], at_once: int) -> int:
        """Take run i in hand, unless it is done or another process has it. Returns how many there may be from now on."""
        if i in self.diverged:
            return at_once
        if found := self._finished(i, there):
            self._done(i, found)
            return at_once
        spec, choice, key = self.specs[i], self.choices[i], self.keys[i]
        lane = Lane.take(i, key, self._classifiers(i), self.out, self.clock)
        if lane is None:
            self.waiting.append(i)
            return at_once
        self.fresh.append(lane)
        if found := self._finished(i, self._records()):  # another process may have done it in between
            lane.clear()
            self._drop(lane)
            self._done(i, found)
            return at_once
        try:
            task = make_task(spec, choice, self.engine.device)
            if task.data["checksum"] != self.checksums[i]:  # the run has its name by what was there before
                raise MnemonError(f"another {task.data['name']} was stored while its runs were under way; start again.")
            going = Run(
                choice,
                task,
                seed=spec.seed,
                device=self.engine.device,
                bf16=self.engine.precision == "bf16",
            )
            position = lane.start(going, self.show.say)
        except torch.OutOfMemoryError:
            return self._no_room([lane])
        self.show.start(key, f"{spec.method} on {spec.stream}, seed {spec.seed}", position, len(going.batches))
        return at_once

    def _go_on(self, lane: Lane, at_once: int, stop: Callable[[], int]) -> int:
        i = lane.number
        spec = self.specs[i]
        self.lanes.append(lane)
        lane.at_once = max(lane.at_once, len(self.lanes), self.processes)
        try:
            if lane.go_on(self.show, stop):
                made = lane.finish(spec, self.engine)
                self._drop(lane)
                self._done(i, made)
        except Diverged as error:  # it ends alone, the others go on
            self.diverged[i] = f"seed {spec.seed}: {error}"
            self.show.diverged(i, lane.key, f"{spec.method} on {spec.stream}, ", self.diverged[i])
            self.tell(i)
            self._drop(lane)
        except torch.OutOfMemoryError:
            assert lane.going is not None
            return self._no_room([other for other in self.lanes if other.going and other.going.beside(lane.going)])
        return at_once

    def _no_room(self, lanes: list[Lane]) -> int:
        """The device is full: without these runs, or half of them, from now on. They start again later, from their last
        checkpoints."""
        for lane in lanes:
            (self.fresh if lane in self.fresh else self.lanes).remove(lane)
            self.waiting.appendleft(lane.number)
        self._close(lanes)
        gc.collect()
        torch.cuda.empty_cache()
        at_once = max(len(self.lanes) + len(self.fresh), len(lanes) // 2)
        if at_once == 0:
            raise MnemonError(
                f"not even one run of {self.specs[lanes[0].number].method} fits into the memory of the device."
            )
        self.show.say(f"the device's memory is full: going on with {at_once} runs at once")
        return at_once

    def _stop(self, stop: Callable[[], int]) -> None:
        for lane in self.lanes:
            assert lane.going is not None
            with contextlib.suppress(Diverged):  # found again when it goes on
                lane.going.rest()
                lane.save()
        raise Stopped(stop())

    def _drop(self, lane: Lane) -> None:
        (self.fresh if lane in self.fresh else self.lanes).remove(lane)
        lane.close()

    def _close(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.withdraw()  # all of them first: one that leaves must not start the others
        for lane in lanes:
            lane.close()

    def _done(self, i: int, found: list[Record], *, already: bool = False) -> None:
        self.results[i] = found
        self.show.finished(i, self.keys[i], found, already=already)

    def _classifiers(self, i: int) -> list[str]:
        return [c.name for c in self.choices[i].classifiers]

    def _records(self) -> list[Record]:
        """Those of the folder; read again only when the file has changed."""
        try:
            about = os.stat(self.out / records.NAME)
        except OSError:
            return records.read(self.out)
        now = (about.st_mtime_ns, about.st_size)
        if self._seen is None or self._seen[0] != now:
            self._seen = (now, records.read(self.out))
        return self._seen[1]

    def _finished(self, i: int, there: list[Record]) -> list[Record] | None:
        """The records of run i if all of its classifiers are there."""
        names = self._classifiers(i)
        found = {r["classifier"]: r for r in there if r["run"] == self.keys[i]}
        return [found[name] for name in names] if found.keys() >= set(names) else None


def _kind(spec: Spec, choice: Choice) -> str:
    """Runs of one kind differ in nothing but the seed and hyper-parameters without a part in the shapes."""
    shapes = {name: value for name, value in choice.options().items() if not isinstance(value, float)}
    names = [classifier.name for classifier in choice.classifiers]
    return repr((spec.method, spec.stream, choice.objective.name, names, spec.split, spec.order, spec.backbone, shapes))


def make_task(spec: Spec, choice: Choice, device: torch.device) -> Task:
    task = named_task(
        spec.stream, spec.seed, epochs=choice.method.epochs, split=spec.split, order=spec.order, device=device
    )
    return task if spec.backbone is None else replace(task, backbone=spec.backbone)
