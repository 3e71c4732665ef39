"""Torch's modes, which a program may have set for work of its own around a call of ours."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")

AUTOCAST = ("cpu", "cuda", "mps")


def usual(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function, which then runs as where nothing was set: gradients are recorded, nothing is shortened, and new
    tensors are float32 on the CPU. So what is learned does not depend on `torch.no_grad`, `inference_mode`, `autocast`,
    `set_default_dtype` and `set_default_device` around it."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> T:
        x = torch.empty(0)
        plain = torch.is_grad_enabled() and not x.is_inference() and x.dtype == torch.float32 and x.device.type == "cpu"
        if plain and not any(map(torch.is_autocast_enabled, AUTOCAST)):
            return function(*args, **named)
        with contextlib.ExitStack() as modes:
            modes.enter_context(torch.inference_mode(False))
            modes.enter_context(torch.enable_grad())
            modes.enter_context(torch.device("cpu"))
            for device in AUTOCAST:
                if torch.is_autocast_enabled(device):
                    modes.enter_context(torch.autocast(device, enabled=False))
            modes.callback(torch.set_default_dtype, x.dtype)
            torch.set_default_dtype(torch.float32)
            return function(*args, **named)

    return call
