"""Split MNIST with pixels in [0, 1] instead of standardised ones: the i.i.d. bounds, ER and MIR beside the paper's numbers.

    python benchmarks/mnist_inputs.py

η is chosen on validation samples (seeds 100 to 102), then test images are looked at once (seeds 0 to 14). The streams are
those of Table 1; nothing else changes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import mnemon
from common import header, options, write
from mnemon.experiments.scenario import Scenario, named_scenario
from mnemon.experiments.stats import Estimate, estimate
from mnemon.paper.cells import Cell, row

METHODS, RATES = ("iid-online", "iid-offline", "er", "mir"), (0.05, 0.1, 0.15, 0.2)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=15, help="seeds on test images, from 0 on")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    found = {}
    for method in METHODS:
        tried = {lr: mean(method, lr, range(100, 103), "valid") for lr in RATES}
        lr = max(tried, key=lambda rate: tried[rate].mean)
        tested = mean(method, lr, range(args.seeds), "test")
        paper = Cell(1, row(method), "split-mnist").paper
        print(f"{method:12} η {lr:<5} {tested}   the paper {paper}", flush=True)
        found[method] = {"lr": lr, "valid": {rate: each.mean for rate, each in tried.items()}, "test": tested.mean}
    write(args.out, {"methods": found})


def mean(method: str, lr: float, seeds: range, split: str) -> Estimate:
    made = estimate(accuracy(method, lr, seed, split) for seed in seeds)
    assert made is not None
    return made


def accuracy(method: str, lr: float, seed: int, split: str) -> float:
    of = stream(seed, split)
    arrays = (of.x / 255, of.y, of.x_test / 255, of.y_test)
    memory: dict[str, Any] = {} if row(method).bound else {"memory_size": 500}
    record = mnemon.run(method, of.stream, data=arrays, seed=seed, backbone="mlp", lr=lr, device="cpu", **memory)
    return float(record["average_accuracy"])


@cache
def stream(seed: int, split: str) -> Scenario:
    """The samples of Table 1's run with this seed, in the order of their tasks; i.i.d. methods shuffle them."""
    return named_scenario("split-mnist", seed, epochs=0, split=split, device=torch.device("cpu"))


if __name__ == "__main__":
    main()
