"""What a run measures beside its accuracy matrix, where it is asked for: prequential accuracy and a linear probe.

Neither changes the training. Both have a price, so a run pays it only if its spec names them (`--measure prequential,probe`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from mnemon.experiments.run import Run

MEASURES = ("prequential", "probe")
PENALTY = 1e-4  # of the probe's squared weights, beside the mean cross-entropy
STEPS = 200  # of L-BFGS


def learn_tested(run: Run, proceed: Callable[[], bool]) -> int:
    """Learn the run's next batches, each after it was predicted (test, then train); returns how many were learned.

    A learner that takes a block of batches at once is tested on the block. What comes before anything can be predicted, the
    first batch, is not counted; a class that was never seen counts as wrong.
    """
    block = run.next_batches()
    going, learned = True, 0

    def ask() -> bool:
        nonlocal going
        going = proceed()
        return going

    size = 1 if run.choice.method.trains else len(block)
    for start in range(0, len(block), size):
        part = block[start : start + size]
        if run.learner.samples and getattr(run.learner, "fitted", True):
            rows = torch.from_numpy(part.ravel()).to(run.y.device)
            y = run.y.index_select(0, rows)
            classifiers = run.choice.classifiers
            found = run.learner.scores(run.scenario.x.index_select(0, rows), classifiers)
            for classifier, scores in zip(classifiers, found, strict=True):
                counts = run.prequential.setdefault(classifier.name, [0, 0])
                counts[0] += int((scores.argmax(1) == y).sum())
                counts[1] += len(y)
        learned += run.learner.learn(run.scenario.x, run.y, part, ask)
        if not going:
            break
    return learned


def prequential_accuracy(run: Run, classifier: str) -> float | None:
    """Percent of the samples that were predicted right before they were learned; None if there was none."""
    right, count = run.prequential.get(classifier, [0, 0])
    return 100 * right / count if count else None


def probe_accuracy(run: Run) -> float:
    """Percent of the test samples that a linear classifier gets right which is trained, on the final features, with all
    samples of the stream: what the features could give, were nothing forgotten by the classifier.

    Multinomial logistic regression on standardised features, by L-BFGS from zero in float64.
    """
    scenario = run.scenario
    tested = np.flatnonzero(np.isin(scenario.y_test, [label for labels in scenario.tested for label in labels]))
    seen = torch.from_numpy(np.unique(scenario.stream.indices)).to(run.y.device)
    rows = torch.from_numpy(tested).to(run.y.device)
    x, y = _features(run, scenario.x.index_select(0, seen)), run.y.index_select(0, seen)
    x_test, y_test = _features(run, scenario.x_test.index_select(0, rows)), run.y_test.index_select(0, rows)
    mean, std = x.mean(0), x.std(0, correction=0).clamp(min=1e-6)
    w = _fit((x - mean) / std, y, len(run.table))
    predicted = (F.pad((x_test - mean) / std, (0, 1), value=1.0) @ w.T).argmax(1)
    return 100 * float((predicted == y_test).double().mean())


def _features(run: Run, x: Tensor) -> Tensor:
    with run.learner.evaluating():
        parts = [run.learner.output(part).features for part in torch.split(x, run.learner.eval_batch_size)]
        return torch.cat(parts).double()


def _fit(x: Tensor, y: Tensor, classes: int) -> Tensor:
    """Weights [C, d + 1], the intercept last."""
    x = F.pad(x, (0, 1), value=1.0)
    w = x.new_zeros(classes, x.shape[1], requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = F.cross_entropy(x @ w.T, y) + PENALTY * w[:, :-1].square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return w.detach()
