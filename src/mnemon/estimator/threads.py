"""Small steps are made in one thread: a second one would mostly wait, and on a busy machine wait long."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import torch
from threadpoolctl import ThreadpoolController
from torch import nn

from mnemon.learning.backbones import MLP
from mnemon.learning.learner import Learner

SMALL = 64  # samples in a step, new and replayed


def for_steps(learner: Learner) -> contextlib.AbstractContextManager[Any]:
    """Within: as many threads as this learner's steps are worth, for the thread that calls and for no other."""
    method = learner.method
    samples = method.batch_size + (method.replay_size if method.replays else 0)
    light = isinstance(learner.net.backbone, MLP | nn.Flatten)
    return one_thread() if light and samples <= SMALL and learner.device.type == "cpu" else contextlib.nullcontext()


def one_thread() -> contextlib.AbstractContextManager[Any]:
    """OpenMP is asked, which counts for each thread on its own. `torch.set_num_threads` would count, and for good, in every
    thread of the user's that calls PyTorch for the first time meanwhile, too."""
    torch.get_num_threads()  # the first call in a thread sets PyTorch's default, which must not come later
    limit: contextlib.AbstractContextManager[Any] = _openmp().limit(limits=1)
    return limit


@cache
def _openmp() -> Any:
    return ThreadpoolController().select(user_api="openmp")
