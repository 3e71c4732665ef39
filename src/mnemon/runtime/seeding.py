"""Torch's generator, which all threads share, set to a seed for a while."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

_ALONE = threading.RLock()  # two threads that make networks at once would draw from each other's numbers


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within, torch's CPU generator starts from the seed; afterwards it is as it was."""
    with _ALONE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
