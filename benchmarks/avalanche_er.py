"""ER on Split MNIST with Avalanche, step by step beside mnemon in one process (optional: needs avalanche-lib 0.6.0).

Avalanche's own way to learn online: the stream cut into experiences of ten samples (split_online_stream), Naive with
ReplayPlugin over a ReservoirSamplingBuffer, no metrics and no loggers. Same batches, network, rate and memory size.

    pip install avalanche-lib==0.6.0
    python benchmarks/avalanche_er.py
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from common import describe, header, options, quartiles, write
from mnemon.bench.eager import mlp
from mnemon.bench.training import Ours
from mnemon.bench.training import network_input as inputs
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import Scenario, named_scenario
from mnemon.experiments.spec import Spec
from mnemon.runtime.device import Engine

try:
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.scenarios.online import split_online_stream
    from avalanche.benchmarks.utils import AvalancheDataset, DataAttribute
    from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin
    from avalanche.training.storage_policy import ReservoirSamplingBuffer
    from avalanche.training.supervised import Naive
except ImportError as error:
    print(f"Avalanche cannot be imported ({error}); install it with: pip install avalanche-lib==0.6.0", file=sys.stderr)
    raise SystemExit(2) from None


class Avalanche:
    """Avalanche on the batches of `run`; `model` makes scores of images (default: the MLP)."""

    def __init__(
        self, run: Run, seed: int, *, model: nn.Module | None = None, device: torch.device | None = None
    ) -> None:
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        x, y = inputs(run.scenario, run.scenario.x), torch.from_numpy(run.scenario.y)
        tasks = []
        for rows in np.split(run.batches, run.ends[:-1]):
            samples = TensorDataset(x[rows.ravel()], y[rows.ravel()])
            targets = DataAttribute(y[rows.ravel()].tolist(), "targets")
            tasks.append(AvalancheDataset([samples], data_attributes=[targets]))
        bench = benchmark_from_datasets(train=tasks)
        self.stream = iter(split_online_stream(bench.train_stream, experience_size=10, shuffle=False))
        self.model = nn.Sequential(mlp(784), nn.Linear(400, 10)) if model is None else model
        values = run.choice.options()
        memory = values["memory_size"]
        replay = ReplayPlugin(memory, batch_size_mem=10, storage_policy=ReservoirSamplingBuffer(max_size=memory))
        self.strategy = Naive(
            model=self.model,
            optimizer=torch.optim.SGD(self.model.parameters(), lr=values["lr"]),
            criterion=nn.CrossEntropyLoss(),
            train_mb_size=10,
            train_epochs=1,
            plugins=[replay],
            evaluator=EvaluationPlugin(),
            device=device or "cpu",
        )
        self.made = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.strategy.train(next(self.stream))
        self.made += count
        assert self.strategy.clock.train_iterations == self.made, "one experience of ten samples is one SGD step"

    @torch.no_grad()
    def accuracy(self, scenario: Scenario) -> float:
        """Average accuracy over the tasks; each has its own test samples."""
        right = (self.model(inputs(scenario, scenario.x_test)).argmax(1) == torch.from_numpy(scenario.y_test)).double()
        means = [right[torch.from_numpy(np.isin(scenario.y_test, labels))].mean() for labels in scenario.tested]
        return 100 * float(torch.stack(means).mean())


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--rounds", type=int, default=10, help="blocks of 100 steps of each (default 10; 5 are a stream)"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    warnings.showwarning = lambda *_, **__: None  # one at each step of Avalanche; printing them would be timed
    header()
    cpu = torch.device("cpu")
    scenario = named_scenario("split-mnist", args.seed, epochs=0, device=cpu)
    times: dict[str, list[float]] = {"mnemon": [], "avalanche": []}
    accuracies = []
    for number in range(args.rounds):
        if number % 5 == 0:
            seed = args.seed + number
            run = Run(Spec("er", "split-mnist", seed).choice(), scenario, seed=seed, device=cpu)
            ours, theirs = Ours([run], Engine(cpu)), Avalanche(run, seed)
        pair: list[tuple[str, Any]] = [("mnemon", ours), ("avalanche", theirs)]
        for name, what in pair if number % 2 else reversed(pair):
            start = time.perf_counter()
            what.steps(100)
            times[name].append(10 * (time.perf_counter() - start))
        if number % 5 == 4:
            accuracies.append(theirs.accuracy(scenario))
    values = run.choice.options()
    low, middle, high = quartiles([a / m for a, m in zip(times["avalanche"], times["mnemon"], strict=True)])
    print(f"ER, Split MNIST, batch 10 + replay 10, {args.rounds} rounds of 100 steps each, {describe(values)}")
    print(f"mnemon {np.median(times['mnemon']):.3f} ms   Avalanche {np.median(times['avalanche']):.3f} ms a step")
    print(f"Avalanche/mnemon {middle:.2f} ({low:.2f} … {high:.2f})")
    if accuracies:
        print(f"Avalanche's average accuracy after each stream: {', '.join(f'{a:.2f}' for a in accuracies)}")
    write(args.out, {"benchmark": "avalanche_er", "options": values, "blocks_ms": times, "accuracy": accuracies})


if __name__ == "__main__":
    main()
