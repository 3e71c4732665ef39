"""Torch's modes, which a program may have set for work of its own around a call of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def usual() -> Iterator[None]:
    """Within, as where nothing was set: gradients are recorded, nothing is shortened, and new tensors are float32 on the CPU.
    So what is learned does not depend on `torch.no_grad`, `inference_mode`, `autocast`, `set_default_dtype` and
    `set_default_device` around it. Also a decorator."""
    with contextlib.ExitStack() as changed:
        if torch.is_inference_mode_enabled():
            changed.enter_context(torch.inference_mode(False))
        if not torch.is_grad_enabled():
            changed.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda", "mps"):
            if torch.is_autocast_enabled(device):
                changed.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":
            changed.enter_context(torch.device("cpu"))
        if (dtype := torch.get_default_dtype()) != torch.float32:
            torch.set_default_dtype(torch.float32)
            changed.callback(torch.set_default_dtype, dtype)
        yield
