"""The ResNet's training step on a CPU: where its time goes, and what other ways to compute it cost.

ER, batch 10, replay 10, random images in CIFAR's shape; the ways in turn. Always one thread, and its CPU time, not the
clock: other work on the machine then shows little. "again" is the same way twice: how far it is from 1 says what a
difference means.

    python benchmarks/cpu_step.py
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from common import header, options, quartiles, write
from mnemon.bench.shapes import make_run, make_scenario
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import Scenario
from mnemon.learning.build import choose

CPU = torch.device("cpu")
Context = Callable[[], AbstractContextManager[Any]]


class Way:
    """ER's steps, computed in one way."""

    def __init__(self, run: Run, within: Context = contextlib.nullcontext) -> None:
        self.run, self.within, self.made = run, within, 0

    def steps(self, count: int) -> float:
        """CPU seconds of so many more steps."""
        rows = self.run.batches[self.made : self.made + count]
        self.made += count
        with self.within():
            start = time.thread_time()
            self.run.learner.learn(self.run.scenario.x, self.run.y, rows)
            return time.thread_time() - start


def ways(scenario: Scenario) -> dict[str, Way]:
    def run(**options: Any) -> Run:
        return make_run("resnet18", "er", 0, scenario, CPU, **options)

    apart = Run(
        choose("er", given=run().choice.options() | {"forward": "separate"}),
        replace(scenario, backbone="resnet18"),
        seed=0,
        device=CPU,
    )
    first = run()
    first.learner.net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    inputs = run()
    inputs.learner.normalise = partial(_channels_last, inputs.learner.normalise)  # type: ignore[method-assign]
    return {
        "as it is": Way(run()),
        "again": Way(run()),
        "bf16 in the body": Way(run(bf16=True)),
        "new, replayed in two passes": Way(apart),
        "weights channels first": Way(first),
        "inputs channels last": Way(inputs),
        "without oneDNN": Way(run(), partial(torch.backends.mkldnn.flags, enabled=False)),
    }


def _channels_last(normalise: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return normalise(x).contiguous(memory_format=torch.channels_last)


def shares(way: Way, steps: int) -> dict[str, float]:
    """Percent of the time in each operation."""
    with profile(activities=[ProfilerActivity.CPU]) as taken:
        way.steps(steps)
    times = {event.key: event.self_cpu_time_total for event in taken.key_averages()}
    total = sum(times.values())
    return {key: 100 * value / total for key, value in sorted(times.items(), key=lambda item: -item[1])[:8]}


def gss_gradients(scenario: Scenario, rounds: int) -> tuple[float, float, float]:
    """The gradients of ten memory batches of ten, which GSS compares with: one by one, beside all at once (vmap)."""
    run = make_run("resnet18", "gss", 0, scenario, CPU)
    learner = run.learner
    learner.learn(scenario.x, run.y, run.batches[:12])
    x, y = learner.normalise(scenario.x[:100]).reshape(10, 10, 3, 32, 32), run.y[:100].reshape(10, 10)

    def one_by_one() -> None:
        with learner.evaluating(), torch.enable_grad():
            for images, labels in zip(x, y, strict=True):
                loss = learner.objective.per_sample(learner.net(images), labels, learner.seen).mean()
                learner.differentiate(loss, learner.parameters)

    ratios = []
    for number in range(rounds + 1):
        taken = []
        for work in (one_by_one, partial(learner.batch_gradients, x, y)):
            start = time.thread_time()
            work()
            taken.append(time.thread_time() - start)
        ratios += [taken[0] / taken[1]] if number else []
    return quartiles(ratios)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="rounds (default 8)")
    parser.add_argument("--steps", type=int, default=5, help="steps of each way in a round (default 5)")
    args = parser.parse_args()
    torch.set_num_threads(1)  # thread_time is of one thread
    header()
    scenario = make_scenario("resnet18", CPU)
    those = ways(scenario)
    taken: dict[str, list[float]] = {name: [] for name in those}
    for way in those.values():
        way.steps(12)  # the memory has what is replayed
    for _ in range(args.rounds):
        for name, way in those.items():
            taken[name].append(1e3 * way.steps(args.steps) / args.steps)
    usual = those["as it is"].run.learner.parameters
    record: dict[str, Any] = {}
    print("ER's step, ms of CPU time; its ratio to the step as it is, median (quartiles)")
    for name, way in those.items():
        low, middle, high = quartiles([a / b for a, b in zip(taken[name], taken["as it is"], strict=True)])
        pairs = zip(usual, way.run.learner.parameters, strict=True)
        equal = "the same bits" if all(torch.equal(p, q) for p, q in pairs) else "other bits"
        print(f"{name:28} {np.median(taken[name]):6.1f}   {middle:.2f} ({low:.2f} … {high:.2f})   {equal}")
        record[name] = {"ms": taken[name], "same_bits": equal == "the same bits"}
    low, middle, high = gss_gradients(scenario, args.rounds)
    print(f"\nGSS, ten gradients one by one beside all at once: {middle:.2f} ({low:.2f} … {high:.2f})")
    print("\nOf the step's time, percent:")
    found = shares(those["as it is"], 2 * args.steps)
    for key, value in found.items():
        print(f"{key:40} {value:5.1f}")
    write(args.out, {"benchmark": "cpu_step", "ways": record, "gss_one_by_one": [low, middle, high], "shares": found})


if __name__ == "__main__":
    main()
