"""The replay memory: tensors of a fixed size, and the rules of reservoir sampling as a plan made on the host."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon import draws
from mnemon.errors import MnemonError


class Memory:
    """M rows of samples (x), their class indices (y) and what else a method keeps of each, filled from row 0 on.

    Row M is a waste bin: a sample that is not kept is written there, so every step writes the same number of rows.
    """

    def __init__(
        self,
        size: int,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        device: torch.device,
        columns: tuple[str, ...] = (),
    ) -> None:
        self.size = size
        self.extra = {name: torch.zeros(size + 1, dtype=torch.int64, device=device) for name in columns}
        try:
            self.x = torch.zeros((size + 1, *shape), dtype=dtype, device=device)
        except RuntimeError:  # torch's word for "no room"
            raise MnemonError(f"a memory of {size} samples of shape {shape} does not fit on {device}.") from None
        self.y = torch.zeros(size + 1, dtype=torch.int64, device=device)

    def write(self, slots: Tensor, x: Tensor, y: Tensor) -> None:
        """Row slots[i] ← sample i; no slot but the waste bin may come twice."""
        self.x.index_copy_(0, slots, x)
        self.y.index_copy_(0, slots, y)


def reservoir_slots(seed: int, start: int, steps: int, batch: int, size: int) -> NDArray[np.int64]:
    """Exact reservoir sampling for samples start … start + steps·batch − 1: a slot for each, [steps, batch].

    Sample number N (from 1) takes row N−1 while there is room; then it draws j from 1 … N and takes row j if j ≤ size.
    `size` means "not kept". When two samples of one batch take the same row, the later one has it.
    """
    count = steps * batch
    number = np.arange(start, start + count)  # N − 1
    j = np.floor(draws.uniform(seed, "write", start, count) * (number + 1)).astype(np.int64)
    slots = np.where(number < size, number, np.minimum(j, size)).reshape(steps, batch)
    for i in range(batch - 1):
        overwritten = (slots[:, i, None] == slots[:, i + 1 :]).any(1)
        slots[overwritten, i] = size
    return slots


def replay_rows(
    seed: int, step: int, filled: NDArray[np.int64], count: int, purpose: str = "replay"
) -> NDArray[np.int64]:
    """For each of the steps step, step+1, …: `count` different filled rows, uniformly; fewer while fewer are filled."""
    u = draws.uniform(seed, purpose, step * count, len(filled) * count).reshape(len(filled), count)
    return draws.distinct(u[:, : int(filled[0])], filled)
