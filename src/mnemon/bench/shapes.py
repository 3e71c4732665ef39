"""What the benchmark learns: random images in the shapes of Split MNIST and Split CIFAR-10."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from mnemon import streams
from mnemon.errors import check_known
from mnemon.experiments.executor import threads
from mnemon.experiments.recipes.recipes import recipe
from mnemon.experiments.run import Run
from mnemon.experiments.scenario import Scenario, array_scenario
from mnemon.learning.build import choose

CLASSES, TASKS, IMAGES, PASSES = 10, 5, 10_000, 20
NETS = {"mlp": ((1, 28, 28), "mnist", 500), "resnet18": ((3, 32, 32), "cifar10", 1000)}  # shape, recipe, memory


def make_scenario(net: str, device: torch.device) -> Scenario:
    """Ten classes in five tasks; the images come by twenty times, so that no measurement reaches the end."""
    check_known("network", net, NETS)
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (IMAGES, *NETS[net][0]), np.uint8), np.arange(IMAGES) % CLASSES
    once = streams.split(y, tasks=TASKS, seed=0)
    whole = streams.Stream(once.kind, np.tile(once.indices, PASSES), (IMAGES * PASSES,), (tuple(range(CLASSES)),))
    return array_scenario(whole, (x, y, x, y), 0, epochs=0, device=device)


def make_run(
    net: str,
    method: str,
    seed: int,
    scenario: Scenario,
    device: torch.device,
    *,
    bf16: bool = False,
    memory_size: int | None = None,
) -> Run:
    """A run as `mnemon run` would make it for Split MNIST or Split CIFAR-10."""
    kind = choose(method)
    given = recipe(method, kind.objective.name, "split", NETS[net][1])
    if kind.method.replays:
        given = {"memory_size": memory_size or NETS[net][2]} | given
    return Run(choose(method, given=given), replace(scenario, backbone=net), seed=seed, device=device, bf16=bf16)


def learn_here(run: Run, rows: NDArray[np.int64]) -> None:
    """Steps on the CPU as the runner makes them: the MLP's with one thread."""
    with threads(run):
        run.learner.learn(run.scenario.x, run.y, rows)
