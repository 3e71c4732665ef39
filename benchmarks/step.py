"""The time of one training step, mnemon beside the eager loop of eager.py, in one process.

Both learn the same Split stream (batch 10, replay 10), in turn, in blocks of 100 steps with the order swapped each round,
so that a busy machine slows both; each round gives one ratio. mnemon is driven as the runner drives it: planning of the
draws, the check for finite losses and the question after each step whether to go on are inside the time.

    python benchmarks/step.py                                  # Split MNIST, MLP
    python benchmarks/step.py --net resnet18 --rounds 6        # CIFAR-10 shapes, reduced ResNet-18
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from common import header, options, quartiles, write
from eager import describe, eager_for, inputs, seed_all
from mnemon import data, streams
from mnemon.errors import MnemonError
from mnemon.experiments.progress import Progress
from mnemon.experiments.run import Run, Task, array_task, named_task
from mnemon.experiments.spec import Spec

CPU = torch.device("cpu")


def task_for(net: str, seed: int) -> Task:
    """Split MNIST for the MLP, Split CIFAR-10 for the ResNet; random images where CIFAR-10 is not in the cache."""
    if net == "mlp":
        return named_task("split-mnist", seed, epochs=0, device=CPU)
    if any(line.name == "cifar10" and line.state == "ready" for line in data.listing()):
        return named_task("split-cifar10", seed, epochs=0, device=CPU)
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 256, (5000, 3, 32, 32), np.uint8), np.arange(5000) % 10
    return array_task(streams.split(y, tasks=5, seed=seed), (x, y, x[:10], y[:10]), seed, epochs=0, device=CPU)


class Ours:
    """mnemon, block by block."""

    def __init__(self, method: str, stream: str, task: Task, seed: int) -> None:
        self.run = Run(Spec(method, stream, seed).choice(), task, seed=seed, device=CPU)
        self.progress = Progress(quiet=True)

    def proceed(self) -> bool:
        """What the runner asks after each step: show it, then look at the clock."""
        self.progress.step("", self.run.learner.steps)
        return time.monotonic() < 1e12

    def block(self, steps: int) -> None:
        run = self.run
        rows = run.batches[run.position : run.position + steps]
        run.position += run.learner.learn(run.task.x, run.y, rows, self.proceed)
        run.learner.check()


class Theirs:
    """The eager loop on the same batches."""

    def __init__(self, run: Run, seed: int) -> None:
        seed_all(seed)
        self.batches = torch.from_numpy(run.batches)
        self.x, self.y = inputs(run.task, run.task.x), torch.from_numpy(run.task.y)
        self.eager = eager_for(run, self.x)
        self.position = 0

    def block(self, steps: int) -> None:
        for rows in self.batches[self.position : self.position + steps]:
            self.eager.step(self.x[rows], self.y[rows])
        self.position += steps


def seconds(work: Callable[[int], None], steps: int) -> float:
    start = time.perf_counter()
    work(steps)
    return time.perf_counter() - start


def compare(method: str, net: str, task: Task, seed: int, rounds: int, steps: int) -> dict[str, Any]:
    """ms per step of both and their ratio, over `rounds` interleaved blocks; each stream is run from its start to 500."""
    stream = "split-mnist" if net == "mlp" else "split-cifar10"
    times: dict[str, list[float]] = {"mnemon": [], "eager": []}
    per_run = max(500 // steps, 1)
    for number in range(rounds + 1):  # round 0 warms up
        if number == 0 or (number - 1) % per_run == 0:
            ours = Ours(method, stream, task, seed)
            theirs = Theirs(ours.run, seed)
        pair = [("mnemon", ours.block), ("eager", theirs.block)]
        for name, block in pair if number % 2 else reversed(pair):
            taken = 1e3 * seconds(block, steps) / steps
            if number:
                times[name].append(taken)
    ratios = [e / m for e, m in zip(times["eager"], times["mnemon"], strict=True)]
    return {
        "method": method,
        "options": ours.run.choice.options(),
        "mnemon_ms": float(np.median(times["mnemon"])),
        "eager_ms": float(np.median(times["eager"])),
        "ratio_quartiles": quartiles(ratios),
        "blocks_ms": times,
    }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--net", choices=("mlp", "resnet18"), default="mlp")
    parser.add_argument("--rounds", type=int, default=40, help="blocks of each (default 40)")
    parser.add_argument("--steps", type=int, help="steps a block (default 100; ResNet 20)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    steps = args.steps or (100 if args.net == "mlp" else 20)
    try:
        task = task_for(args.net, args.seed)
    except MnemonError as error:
        raise SystemExit(str(error)) from None
    header()
    print(f"{args.net} on {task.data['name']}, batch 10 + replay 10, {args.rounds} rounds of {steps} steps each")
    print(f"{'method':8} {'mnemon ms':>10} {'eager ms':>10} {'eager/mnemon':>13}   quartiles")
    results = []
    for method in ("er", "hybrid"):
        r = compare(method, args.net, task, args.seed, args.rounds, steps)
        low, middle, high = r["ratio_quartiles"]
        ms = f"{r['mnemon_ms']:10.3f} {r['eager_ms']:10.3f}"
        print(f"{method:8} {ms} {middle:13.2f}   {low:.2f} … {high:.2f}   {describe(r['options'])}")
        results.append(r)
    write(
        args.out, {"benchmark": "step", "net": args.net, "data": task.data["name"], "steps": steps, "results": results}
    )


if __name__ == "__main__":
    main()
