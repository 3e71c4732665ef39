"""Memory that was freed goes back to the system."""

import os
import sys
from pathlib import Path

import pytest
import torch

from mnemon.runtime import heap


def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; only glibc can be asked")
def test_what_was_freed_between_what_is_kept_goes_back():
    tensors = [torch.ones(2500) for _ in range(20_000)]  # 10 kB each, which malloc does not map one by one
    full = resident_mib()
    kept = tensors[::100]
    del tensors
    heap.trim()
    assert full - resident_mib() > 100  # of 190
    assert all(bool((tensor == 1).all()) for tensor in kept)
