"""Samples cut into batches, and these learned in their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import Diverged
from mnemon.estimator import threads
from mnemon.estimator.online import OnlineLearner
from mnemon.estimator.statistics import OnlineStatistics
from mnemon.learning.gaussian import CHUNK
from mnemon.learning.learner import BLOCK


def learn_batches(
    learner: OnlineLearner | OnlineStatistics, x: Tensor, y: Tensor, held: NDArray[np.bool_] | None = None
) -> None:
    """Learn samples x of the classes y, but for those that are `held` out, in batches of batch_size samples, of which the last
    may be smaller. Batches are cut before those held out are left out, so that the same samples are in a batch whatever the
    chunks, as long as these are of whole batches."""
    x, y = x.to(learner.device), y.to(learner.device)
    batch, rows = learner.method.batch_size, np.arange(len(x))
    # Batches mean nothing to sums: they are handed over in as large blocks as are added at once.
    block = BLOCK if learner.method.trains else max(BLOCK, CHUNK // batch)
    with threads.for_steps(learner):
        for same in _of_one_size(rows, held, batch, apart=learner.method.trains):
            for start in range(0, len(same), block):
                learner.learn(x, y, same[start : start + block])
                learner.check()
        _check_finite(learner)


def _of_one_size(
    rows: NDArray[np.int64], held: NDArray[np.bool_] | None, batch: int, *, apart: bool
) -> Iterator[NDArray[np.int64]]:
    """Batches in their order, those of one size that follow each other as one table [batches, size]. `apart`: batches are cut
    before what is held out is left out."""
    if held is not None and not apart:
        rows, held = rows[~held], None
    starts = np.arange(0, len(rows), batch)
    left_out = np.zeros(len(rows), np.bool_) if held is None else held
    sizes = np.add.reduceat(~left_out, starts, dtype=np.int64) if len(rows) else starts
    at, kept = 0, rows[~left_out]
    for same in np.split(sizes, np.flatnonzero(np.diff(sizes)) + 1):
        count = int(same.sum())
        if count:
            yield kept[at : at + count].reshape(len(same), -1)
        at += count


def _check_finite(learner: OnlineLearner | OnlineStatistics) -> None:
    """A loss is looked at before its step; what the last step did shows in the parameters only."""
    learner.check()
    sums = [p.detach().sum() for p in learner.parameters]  # one value that is not finite makes its sum so
    if sums and not bool(torch.stack(sums).isfinite().all()):
        raise Diverged(f"training diverged (learning rate {learner.method.lr}): a parameter is not finite.")
