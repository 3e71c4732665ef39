"""The data of Figure 5: ER and hybrid on validation samples with memories of several sizes."""

from __future__ import annotations

from mnemon.experiments.spec import Spec
from mnemon.paper.cells import CLASSIFIERS, row
from mnemon.paper.results import Results

METHODS = ("er", "hybrid")
SIZES = (200, 500, 1000, 2000)
STREAMS = ("split-cifar10", "split-cifar100-10", "split-mini_imagenet-10")
SEEDS = (100, 101, 102, 103, 104)  # on validation samples, so never among the fifteen


def spec(method: str, stream: str, size: int, seed: int) -> Spec:
    """A run with a memory of that size."""
    loss = row(method).loss
    options = {"memory_size": size}
    return Spec(method, stream, seed, loss, CLASSIFIERS[method, loss], "valid", options=options, cell="fig5")


def accuracies(results: Results, method: str, stream: str, size: int) -> dict[int, float]:
    """Validation accuracy by seed."""
    return results.runs(spec(method, stream, size, 0), row(method).classifier, SEEDS).values
