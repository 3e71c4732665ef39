"""i.i.d.: every sample once an epoch, in a new random order each; what a learner could do if nothing ever changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mnemon import rng
from mnemon.errors import MnemonError
from mnemon.streams.stream import Stream, check_labels, digest


def iid(labels: ArrayLike, *, epochs: int, seed: int) -> Stream:
    """`epochs` shuffles one after the other (the paper: 1 = i.i.d. online, 5 = i.i.d. offline)."""
    y = check_labels(labels)
    if epochs < 1:
        raise MnemonError(f"an i.i.d. stream has at least one epoch, not {epochs}.")
    n = len(y)
    indices = np.concatenate([rng.permutation(seed, "stream order", e * n, n) for e in range(epochs)])
    return Stream(
        kind="iid",
        indices=indices,
        boundaries=(len(indices),),
        tasks=(tuple(np.unique(y).tolist()),),
        arrivals=digest(y[indices]),
    )
