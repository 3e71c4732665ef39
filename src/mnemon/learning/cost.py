"""What a learner costs: the bytes of its state, and the multiplications it makes for each new sample.

A multiplication is one with the addition that follows it (multiply-accumulate), of matrix products, convolutions and
distances; what is done number by number (ReLU, normalisation, the step of SGD) is not counted. Counted are all passes of a
step with a full memory, forward and backward: over the new and the replayed samples, and those by which a method chooses.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from mnemon.learning import plugins
from mnemon.learning.backbones import Backbone, PatchFeatures
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.learners import make_learner
from mnemon.learning.method import Method
from mnemon.learning.objectives import Objective
from mnemon.learning.streaming import StreamingLearner
from mnemon.runtime.threads import torch_threads

aten = torch.ops.aten

# Multiplications of one sample's pass. Below, a step is computed sooner than torch is ready for tensors without values.
SMALL = 10_000_000


def state_bytes(learner: Learner) -> int:
    """Of all tensors that a checkpoint of it holds: network, averaged copy, velocities, memory, class rows, statistics, counts.

    Where samples wait for a dictionary first, the largest that a checkpoint ever is.
    """
    now = _bytes(learner.state().values())
    if not isinstance(learner, StreamingLearner) or not isinstance(learner.net.backbone, PatchFeatures):
        return now
    waiting = {name: tensor for name, tensor in learner.state().items() if not name.startswith("statistics.")}
    sample = math.prod(learner.inputs.shape) * learner.inputs.dtype.itemsize + 8  # and its class
    return max(now, _bytes(waiting.values()) + learner.net.backbone.waits_for * sample)


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def multiplications(
    method: Method,
    objective: Objective,
    inputs: Inputs,
    backbone: Backbone,
    classes: int,
) -> int | None:
    """For each new sample of the stream, all passes over it together; None where a module or a method of the user's cannot be
    counted. The learner is one of its own: no learner at work and no random number is touched.

    Counted once in a process for each kind of run: options that are floats change no shapes.
    """
    key = (_kind(method), _kind(objective), inputs, backbone, classes)
    if not isinstance(backbone, str) or key not in _known:

        def build(device: str) -> Learner:
            return make_learner(method, objective, inputs, backbone=backbone, device=device)

        try:
            # Attention as the products it is made of. One thread: a second would mostly wait.
            with torch.random.fork_rng(devices=[]), sdpa_kernel(SDPBackend.MATH), torch_threads(1):
                found = _count(build, classes)
        except Exception:
            # Anything may come out of code of the user's, and a record is worth more than this number.
            if isinstance(backbone, str) and all(plugins.is_built_in(type(each)) for each in (method, objective)):
                raise
            found = None
        if not isinstance(backbone, str):
            return found
        _known[key] = found
    return _known[key]


_known: dict[Any, int | None] = {}


def _kind(holder: Method | Objective) -> tuple[Any, ...]:
    """Of a method or a loss, what its shapes may depend on."""
    return type(holder), *(value for value in dataclasses.astuple(holder) if not isinstance(value, float))


def _count(build: Callable[[str], Learner], classes: int) -> int:
    first = Counter()
    with first:
        learner = build("cpu")  # looks for the size of the features by passing one sample
    batch, passes = learner.method.batch_size, learner.method.epochs or 1
    if isinstance(learner, StreamingLearner):
        return _of_statistics(learner)
    if first.total < SMALL:
        total = _of_step(learner, batch, classes)
    else:
        try:  # shapes alone say it all
            total = _of_step(build("meta"), batch, classes)
        except Exception:  # unless code of the user's asks for values
            total = _of_step(learner, batch, classes)
    return round(total * passes / batch)


def _of_step(learner: Learner, batch: int, classes: int) -> int:
    """One step, on a device without values ("meta") or another, as if very many samples had been learned."""
    learner.expect(classes)
    memory = learner.memory
    each = math.ceil(memory.size / classes) + 1
    learner.counts[:classes] += each
    learner.samples = each * classes
    learner.steps = learner.samples // batch
    learner.seen[:classes] = True
    memory.y[: memory.size] = torch.arange(memory.size, device=learner.device) % classes
    y = np.arange(batch) % classes
    block = next(learner.blocks(y[None]))
    draws = {name: torch.from_numpy(values).to(learner.device)[0] for name, values in block.plan.items()}
    x = torch.zeros((batch, *learner.inputs.shape), dtype=learner.inputs.dtype, device=learner.device)
    learner.net.train()
    counter = Counter()
    with counter:
        learner.step(x, torch.from_numpy(y).to(learner.device), draws)
    return counter.total


def _of_statistics(learner: StreamingLearner) -> int:
    """Each view of a sample passes the backbone once, and adds one product with itself to the scatter."""
    counter = Counter()
    with counter:
        learner.learned_features(
            torch.zeros(1, *learner.inputs.shape, dtype=learner.inputs.dtype, device=learner.device)
        )
    return counter.total + learner.views * learner.net.dim**2


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the multiplications of this thread within it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total: int = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # asked by torch, which else imports its compiler first: a second for nothing

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        formula = FORMULAS.get(function.overloadpacket)
        if formula is not None:
            self.total += formula(out, *args)
        return out


def _product(out: Tensor, a: Tensor, *_: Any) -> int:
    """[…, n, k] · […, k, m], or of vectors."""
    return out.numel() * a.shape[-1]


def _sum_and_product(out: Tensor, _: Tensor, a: Tensor, *__: Any) -> int:
    return out.numel() * a.shape[-1]


def _convolution(out: Tensor, x: Tensor, weight: Tensor, *more: Any) -> int:
    transposed = more[4]  # after bias, stride, padding, dilation
    return (x if transposed else out).numel() * math.prod(weight.shape[1:])


def _convolution_backward(_: Any, gradient: Tensor, x: Tensor, weight: Tensor, *more: Any) -> int:
    transposed, wanted = more[4], more[7]  # more: sizes of bias, stride, padding, dilation, …, which gradients
    gradients: int = wanted[0] + wanted[1]  # of the input, of the weight
    return (x if transposed else gradient).numel() * math.prod(weight.shape[1:]) * gradients


FORMULAS: dict[Any, Callable[..., int]] = {
    **dict.fromkeys([aten.mm, aten.bmm, aten.mv, aten.dot, aten._cdist_forward], _product),
    **dict.fromkeys([aten.addmm, aten.addmm_, aten.baddbmm, aten.baddbmm_, aten.addmv], _sum_and_product),
    aten.convolution: _convolution,
    aten.convolution_backward: _convolution_backward,
}
