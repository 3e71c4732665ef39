"""A training step: the plain loop, one run of ours, many runs of ours, in turn."""

from __future__ import annotations

import gc
import math
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from mnemon.bench import eager, timing
from mnemon.bench.shapes import learn_here, make_run, make_scenario
from mnemon.bench.workers import BenchWorkers
from mnemon.errors import MnemonError
from mnemon.experiments.executor import AsyncExecutor, executor_for, stack
from mnemon.experiments.pools.pool import AT_ONCE
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import Scenario
from mnemon.experiments.scheduler import STACK
from mnemon.learning.backbones import ReducedResNet18
from mnemon.runtime.device import Engine
from mnemon.runtime.threads import torch_threads


class Timed(Protocol):
    """Learns `runs` streams; `steps` makes so many more steps of each and returns when they are made."""

    runs: int

    def steps(self, count: int) -> None: ...

    def close(self) -> None: ...


class Plain:
    """The loop of eager.py on the batches of a run; for a method it does not have, our own step, launched op by op."""

    runs = 1

    def __init__(self, run: Run, threads: int) -> None:
        self.run, self.threads, self.position = run, threads, 0
        self.batches = torch.from_numpy(run.batches).to(run.learner.device)
        self.loop = plain_loop(run)
        if self.loop is not None:
            self.x = network_input(run.scenario, run.scenario.x)

    def steps(self, count: int) -> None:
        rows = self.batches[self.position : self.position + count]
        with torch_threads(self.threads):
            if self.loop is None:
                self.run.learner.learn(self.run.scenario.x, self.run.y, rows.cpu().numpy())
            else:
                for batch in rows:
                    self.loop.step(self.x[batch], self.run.y[batch])
            if self.run.learner.device.type == "cuda":
                torch.cuda.synchronize()
        self.position += count

    def close(self) -> None:
        pass


def plain_loop(run: Run) -> eager.Er | None:
    """The loop of eager.py for the same work as `run`; None where there is none."""
    method = run.choice.method.name
    if method not in eager.LOOPS:
        return None
    torch.manual_seed(run.seed)
    values = run.choice.options()
    names = ("lr", "memory_size", "replay_size", "gamma", "divisor", "candidates", "reference_size")
    shape = tuple(run.scenario.x.shape[1:])
    image = isinstance(run.learner.net.backbone, ReducedResNet18)
    return eager.LOOPS[method](
        ReducedResNet18(*shape) if image else eager.mlp(math.prod(shape)),
        run.learner.net.dim,
        shape=shape,
        classes=len(run.table),
        device=run.learner.device,
        **{name: values[name] for name in names if name in values},
    )


def network_input(scenario: Scenario, x: Tensor) -> Tensor:
    """Pixels normalised once, up front."""
    return (x.float() - scenario.inputs.mean) / scenario.inputs.std


class Ours:
    """Runs in this process, as many at once as `mnemon run` takes: captured and stacked or side by side on a GPU, one after
    the other on a CPU."""

    def __init__(self, runs: list[Run], engine: Engine) -> None:
        self.list, self.runs = runs, len(runs)
        executors = [executor_for(run) for run in runs]
        self.waves = [executors[start : start + AT_ONCE] for start in range(0, len(runs), AT_ONCE)]
        for start in range(0, len(runs) if engine.stacks else 0, STACK):  # a wave is some stacks
            stack([e for e in executors[start : start + STACK] if isinstance(e, AsyncExecutor)])

    def steps(self, count: int) -> None:
        for wave in self.waves:
            for executor in wave:
                run = executor.run
                rows = run.batches[run.position : run.position + count]
                run.position += count
                if isinstance(executor, AsyncExecutor):
                    executor.member.begin(rows)
                else:
                    learn_here(run, rows)
            launched = [executor.member for executor in wave if isinstance(executor, AsyncExecutor)]
            pushed = launched
            while pushed:
                pushed = [member for member in pushed if member.push()]
            for member in launched:
                member.wait()
            for executor in wave:
                executor.run.learner.check()

    def close(self) -> None:
        pass


def all_timed(net: str, method: str, scenario: Scenario, engine: Engine, many: list[int]) -> dict[str, Timed]:
    """By name: "eager" (on a CPU with all threads, and "eager, 1 thread"), "1 run", "15 runs" …"""
    device, bf16, cores = engine.device, engine.precision == "bf16", torch.get_num_threads()

    def runs(count: int) -> list[Run]:
        return [make_run(net, method, seed, scenario, device, bf16=bf16) for seed in range(count)]

    found: dict[str, Timed] = {"eager": Plain(make_run(net, method, 0, scenario, device), cores)}
    if device.type == "cpu" and cores > 1:
        found["eager, 1 thread"] = Plain(make_run(net, method, 0, scenario, device), 1)
    for count in many:
        name = f"{count} runs" if count > 1 else "1 run"
        spread = device.type == "cpu" and count > 1 and cores > 1
        found[name] = BenchWorkers(net, method, count, min(cores, count)) if spread else Ours(runs(count), engine)
    return found


def measure(
    net: str, method: str, engine: Engine, *, many: list[int], rounds: int, steps: int, full: bool
) -> dict[str, Any]:
    """Milliseconds of a step of each run, and how many times faster than the (faster) eager loop, round by round.

    `full`: the memory is filled first; else only as far as replay needs.
    """
    scenario = make_scenario(net, engine.device)
    before = 0
    if engine.device.type == "cuda":
        gc.collect()  # what was measured before has left
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(engine.device)
        before = torch.cuda.memory_allocated(engine.device)
    those = all_timed(net, method, scenario, engine, many)
    sample = make_run(net, method, 0, scenario, engine.device)
    first = _first(sample, full)
    if first + (rounds + 1) * steps > len(sample.batches):
        raise MnemonError(
            f"{rounds} rounds of {steps} steps are more than the {len(sample.batches):,} there are to time."
        )
    try:
        for one in those.values():
            one.steps(first)
        taken = timing.interleaved({name: partial(one.steps, steps) for name, one in those.items()}, rounds)
    finally:
        for one in those.values():
            one.close()
    each = {name: [1e3 * s / steps / those[name].runs for s in taken[name]] for name in those}  # ms a run-step
    plain = min((name for name in each if name.startswith("eager")), key=lambda name: timing.median(each[name]))
    found: dict[str, Any] = {
        "net": net,
        "method": method,
        "baseline": "plain loop" if method in eager.LOOPS else "own step, op by op",
        "fastest_eager": plain,
        "options": sample.choice.options(),
        "steps": steps,
        "ms_per_run_step": {name: timing.median(values) for name, values in each.items()},
        "times_eager": {name: timing.ratio(each[plain], values) for name, values in each.items()},
        "rounds_ms": each,
    }
    if engine.device.type == "cuda":
        found["device_mib"] = (torch.cuda.max_memory_allocated(engine.device) - before) / 2**20
    else:
        found["resident_mib"] = {name: one.resident for name, one in those.items() if isinstance(one, BenchWorkers)}
    return found


def costs(net: str, methods: list[str], engine: Engine, *, rounds: int, steps: int, full: bool) -> dict[str, Any]:
    """A step of each method beside ER's, one run of each, in turn: (median, quartiles) of the ratio."""
    scenario = make_scenario(net, engine.device)
    bf16 = engine.precision == "bf16"
    those = {
        name: Ours([make_run(net, name, 0, scenario, engine.device, bf16=bf16)], engine)
        for name in {"er": 0} | dict.fromkeys(methods)
    }
    for one in those.values():
        one.steps(_first(one.list[0], full))
    taken = timing.interleaved({name: partial(one.steps, steps) for name, one in those.items()}, rounds)
    return {"net": net, "times_er": {name: timing.ratio(values, taken["er"]) for name, values in taken.items()}}


def _first(run: Run, full: bool) -> int:
    """Steps before the time counts: until the memory is full, or only as many as replay needs."""
    return -(-run.learner.memory.size // run.choice.method.batch_size) + 10 if full else 12
