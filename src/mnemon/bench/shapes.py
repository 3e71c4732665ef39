"""What the benchmark learns: random images in the shapes of Split MNIST, Split CIFAR-10 and Split miniImageNet."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

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

TASKS, IMAGES, PASSES = 5, 10_000, 20


class Shapes(NamedTuple):
    """A backbone and what it learns as on a dataset; and how much is timed, by the kind of the device."""

    backbone: str
    shape: tuple[int, int, int]
    classes: int
    dataset: str
    memory: int
    steps: dict[str, int]  # in a round
    images: dict[str, int]  # of inference


NETS = {
    "mlp": Shapes("mlp", (1, 28, 28), 10, "mnist", 500, {"cpu": 50, "cuda": 200}, {"cpu": 10_000, "cuda": 10_000}),
    "resnet18": Shapes(
        "resnet18", (3, 32, 32), 10, "cifar10", 1000, {"cpu": 4, "cuda": 100}, {"cpu": 2_000, "cuda": 10_000}
    ),
    "resnet18-84": Shapes(
        "resnet18", (3, 84, 84), 100, "mini_imagenet", 1000, {"cpu": 1, "cuda": 30}, {"cpu": 500, "cuda": 5_000}
    ),
}


def make_scenario(net: str, device: torch.device) -> Scenario:
    """All classes in five tasks; the images come by twenty times, so that no measurement reaches the end."""
    check_known("network", net, NETS)
    shape, classes = NETS[net].shape, NETS[net].classes
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (IMAGES, *shape), np.uint8), np.arange(IMAGES) % classes
    once = streams.split(y, tasks=TASKS, seed=0)
    whole = streams.Stream(once.kind, np.tile(once.indices, PASSES), (IMAGES * PASSES,), (tuple(range(classes)),))
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
    """A run as `mnemon run` would make it for the dataset of these shapes."""
    shapes = NETS[net]
    kind = choose(method)
    given = recipe(method, kind.objective.name, "split", shapes.dataset)
    if kind.method.replays:
        given = {"memory_size": memory_size or shapes.memory} | given
    return Run(
        choose(method, given=given), replace(scenario, backbone=shapes.backbone), seed=seed, device=device, bf16=bf16
    )


def learn_here(run: Run, rows: NDArray[np.int64]) -> None:
    """Steps on the CPU as the runner makes them: the MLP's with one thread."""
    with threads(run):
        run.learner.learn(run.scenario.x, run.y, rows)
