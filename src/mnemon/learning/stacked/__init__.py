"""Many learners of one kind as one: a step of all of them at once, and kernels for it.

What needs Triton or the inside of torch is imported on demand.
"""

from __future__ import annotations

from importlib.util import find_spec

from torch import nn

from mnemon.learning.backbones import MLP, ReducedResNet18
from mnemon.learning.learner import Learner


def can_stack(learner: Learner) -> bool:
    """Whether such learners can be stacked, and a stack is faster than each on its own. Convolutions have kernels made for
    it, which need triton (PyTorch brings it along with CUDA); other modules are not known."""
    if not (learner.method.stackable and learner.objective.stackable):
        return False
    try:
        import mnemon.learning.stacked.stack  # noqa: F401
    except ImportError:  # a torch whose inside is another: runs go side by side
        return False
    body = learner.net.backbone
    if type(body) is ReducedResNet18:  # a subclass may pass its input another way
        return learner.device.type == "cuda" and find_spec("triton") is not None
    return isinstance(body, MLP | nn.Flatten) and not learner.net.bf16
