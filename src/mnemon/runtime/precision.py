"""How many bits of float32 numbers go into products and convolutions: switches of torch's, which are the whole process's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch

_lock = threading.Lock()
_within = 0  # how many are within `full_float32`, of all threads
_last_out = contextlib.ExitStack()


@contextlib.contextmanager
def products(*, tf32: bool) -> Iterator[None]:
    """Within, a GPU takes TF32's 19 bits of float32 numbers into products and convolutions, or all; a CPU takes all."""
    switches = _switches(tf32)
    before = [getattr(holder, name) for holder, name, _ in switches]
    try:
        for holder, name, value in switches:
            setattr(holder, name, value)
        yield
    finally:
        for (holder, name, _), value in zip(switches, before, strict=True):
            setattr(holder, name, value)


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Within, all bits go into products and convolutions, whatever the engine's precision is: statistics must not lose any."""
    global _within
    with _lock:
        if _within == 0:
            _last_out.enter_context(products(tf32=False))
        _within += 1
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if _within == 0:
                _last_out.close()


def tf32_in_convolutions() -> bool:
    holder, name, value = _switches(tf32=True)[1]
    return bool(getattr(holder, name) == value)


class _Matmul:
    """The switch of PyTorch's that is a pair of functions."""

    precision = property(
        lambda self: torch.get_float32_matmul_precision(),
        lambda self, value: torch.set_float32_matmul_precision(value),
    )


def _switches(tf32: bool) -> list[tuple[Any, str, Any]]:
    """Where they are, and what to set them to: of a GPU's products, its convolutions, a CPU's products and convolutions."""
    backends: Any = torch.backends
    cuda, cudnn, cpu = backends.cuda, backends.cudnn, backends.mkldnn
    older = [(_Matmul(), "precision", "high" if tf32 else "highest"), (cudnn, "allow_tf32", tf32)]
    if not hasattr(cpu, "matmul"):  # before PyTorch 2.9
        return older
    newer = [(switch, "fp32_precision", "tf32" if tf32 else "ieee") for switch in (cuda.matmul, cudnn.conv)]
    of_cpu = [(switch, "fp32_precision", "ieee") for switch in (cpu.matmul, cpu.conv)]
    return (newer if _are_newer_in_use() else older) + of_cpu


def _are_newer_in_use() -> bool:
    """Whether the program has set a switch that came with PyTorch 2.9, which refuses to read the older ones beside it."""
    backends: Any = torch.backends
    try:
        torch.get_float32_matmul_precision(), backends.cudnn.allow_tf32
    except RuntimeError:
        return True
    return bool(backends.fp32_precision != "none")  # what all switches fall back to
