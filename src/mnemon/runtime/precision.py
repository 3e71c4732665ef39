"""Products in full float32, whatever the engine's precision is: statistics must not lose bits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

_lock = threading.Lock()
_within = 0  # how many, of all threads: torch's switches are the whole process's
_before = (False, False)


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Within, no product or convolution of float32 numbers is made of TF32's shorter ones; after the last one as it was."""
    global _within, _before
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    with _lock:
        if _within == 0:
            _before = matmul.allow_tf32, cudnn.allow_tf32
            matmul.allow_tf32 = cudnn.allow_tf32 = False
        _within += 1
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if _within == 0:
                matmul.allow_tf32, cudnn.allow_tf32 = _before
