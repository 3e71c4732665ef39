"""Many learners that take their steps together: every tensor of theirs is a row of one tensor, and a step of all is one vmap.

The device is launched once for all of them instead of once for each, and no method knows of it: `Learner.step` runs once, with
a dimension more. The learners must be of one kind (the same method, loss and shapes) and at the same step; hyper-parameters
that are numbers without a part in the shapes (η, γ …) may differ, and are then tensors [R] as well.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import _add_batch_dim, get_unwrapped, maybe_get_bdim, maybe_get_level
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.func import functional_call

from mnemon.learning import options
from mnemon.learning.backbones import ReducedResNet18
from mnemon.learning.learner import Learner
from mnemon.learning.method import Draws
from mnemon.learning.network import Network
from mnemon.runtime.precision import tf32_in_convolutions

Tensors = dict[str, Tensor]


class Stack:
    """R learners whose tensors are rows of `tensors` [R, …]; what each of them saves and evaluates is its own row."""

    def __init__(self, learners: list[Learner]) -> None:
        hold = _holders(learners)
        kinds = [{_kind(holder) for holder in holders} for holders in hold.values()]
        if any(len(kind) > 1 for kind in kinds) or len({learner.possible_classes for learner in learners}) > 1:
            raise ValueError("only learners of one kind can be stacked.")
        each = [_changing(learner) for learner in learners]
        self.tensors = {name: _stacked(name, [tensors[name] for tensors in each]) for name in each[0]}
        for row, tensors in enumerate(each):
            for name, tensor in tensors.items():
                tensor.data = self.tensors[name][row]
        for name in learners[0].names:
            self.tensors[f"net.{name}"].requires_grad_()
        for what, holders in hold.items():
            self.tensors |= {f"{what}.{name}": values for name, values in _different(holders, learners[0]).items()}
        self.learner = StackedLearner(learners[0])

    def step(self, x: Tensor, y: Tensor, draws: Draws) -> Tensor:
        """One batch of each: x [R, b, …], y [R, b], draws [R, …] each. Returns the losses [R]."""
        losses: Tensor = torch.vmap(self.learner.step_with)(self.tensors, x, y, draws)
        return losses


class StackedLearner(Learner):
    """A learner without tensors of its own: within `vmap` it takes the step of all learners of a stack at once."""

    def __init__(self, learner: Learner) -> None:
        self.__dict__.update(learner.__dict__)  # the method, the loss, the names: all that is not a tensor
        self.net = copy.deepcopy(learner.net).train()
        if isinstance(self.net.backbone, ReducedResNet18) and learner.device.type == "cuda":
            self.net.backbone = Convolutions.of(self.net.backbone, self.net.bf16)
            self.net.bf16 = False
        self.memory = copy.copy(learner.memory)
        self.own = learner.method, learner.objective
        self.whole = _Step(self.net)

    def step_with(self, tensors: Tensors, x: Tensor, y: Tensor, draws: Draws) -> Tensor:
        """`Learner.step` with these tensors, which are written to."""
        self.tensors, self.seen, memory = tensors, tensors["seen"], self.memory
        memory.x, memory.y = tensors["memory.x"], tensors["memory.y"]
        memory.extra = {name: tensors[f"memory.{name}"] for name in memory.columns}
        self.method, self.objective = (
            _with(holder, _of(what, tensors)) for what, holder in zip(("method", "objective"), self.own, strict=True)
        )
        self.parameters = tuple(tensors[f"net.{name}"] for name in self.names)
        self.velocity = tuple(tensors[f"velocity.{name}"] for name in self.names if self.velocity)
        if self.average is not None:
            self.average = self.average.held_by(tensors["average"], tensors["age"])
        of_net = {f"net.{name}": tensor for name, tensor in _of("net", tensors).items()}
        loss: Tensor = functional_call(self.whole, of_net, (self, x, y, draws))
        return loss

    def differentiate(self, loss: Tensor, at: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Autograd recorded what was done with the tensors [R, …] below `vmap`; the runs do not touch each other, so the
        gradient of the sum of their losses holds the gradient of each."""
        if not at:
            return ()
        level = maybe_get_level(loss)
        below, places = _below(loss), [_below(t) for t in at]
        with temporarily_pop_interpreter_stack():
            gradients = torch.autograd.grad(below.sum(), places)
        return tuple(_add_batch_dim(g, 0, level) for g in gradients)

    def variable(self, x: Tensor) -> Tensor:
        below, level = _below(x), maybe_get_level(x)
        with temporarily_pop_interpreter_stack():
            below = below.detach().requires_grad_()
        return _add_batch_dim(below, 0, level)

    def add(self, places: tuple[Tensor, ...], values: tuple[Tensor, ...], factor: Any) -> None:
        moved, by = [_below(p).data for p in places], [_below(v) for v in values]
        each = _below(factor) if isinstance(factor, Tensor) else None  # [R], where they differ
        with temporarily_pop_interpreter_stack():
            if each is None:
                torch._foreach_add_(moved, by, alpha=factor)
            else:
                torch._foreach_add_(moved, [v * _beside(each, v) for v in by])

    def multiply(self, places: tuple[Tensor, ...], factor: Any) -> None:
        scaled = [_below(p).data for p in places]
        each = _below(factor) if isinstance(factor, Tensor) else None
        with temporarily_pop_interpreter_stack():
            if each is None:
                torch._foreach_mul_(scaled, factor)
            else:
                torch._foreach_mul_(scaled, [_beside(each, p) for p in scaled])

    def batch_gradients(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """Each batch gets a copy of its run's network, and all of these, R·n, make one stack for as long as it takes."""
        n, level = y.shape[0], maybe_get_level(x)
        wanted = {
            name: t for name, t in self.tensors.items() if name == "seen" or name.startswith(("net.", "objective."))
        }
        copies = {name: _repeated(_below(t), n) for name, t in wanted.items()}
        batches = [_below(t).flatten(0, 1) for t in (x, y)]  # [R·n, m, …]
        with self.evaluating(), temporarily_pop_interpreter_stack(), torch.enable_grad():
            at = [copies[f"net.{name}"].requires_grad_() for name in self.names]
            found = torch.autograd.grad(torch.vmap(self._mean_loss)(copies, *batches).sum(), at)
        return [_add_batch_dim(g.reshape(-1, n, g[0].numel()), 0, level) for g in found]

    def _mean_loss(self, tensors: Tensors, x: Tensor, y: Tensor) -> Tensor:
        out = functional_call(self.net, _of("net", tensors), (x,))
        return _with(self.own[1], _of("objective", tensors)).per_sample(out, y, tensors["seen"]).mean()  # type: ignore[no-any-return]


class Convolutions(ReducedResNet18):
    """The ResNet of all runs at once, by kernels of our own (resnet.py)."""

    precision: str

    @classmethod
    def of(cls, body: ReducedResNet18, bf16: bool) -> Convolutions:
        """The same network; it keeps to the precision torch is set to."""
        made = copy.copy(body)
        made.__class__ = cls
        assert isinstance(made, Convolutions)
        made.precision = "bf16" if bf16 else "tf32" if tf32_in_convolutions() else "fp32"
        return made

    def forward(self, x: Tensor) -> Tensor:
        from mnemon.learning.stacked import resnet  # triton comes with CUDA only

        return torch.flatten(self.pool(resnet.blocks(self, x, self.training, self.precision)), 1)


class _Step(nn.Module):
    """The step as a module, so that `functional_call` can put the stack's tensors into the network."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net = net

    def forward(self, learner: StackedLearner, x: Tensor, y: Tensor, draws: Draws) -> Tensor:
        return learner.step(x, y, draws)


def _changing(learner: Learner) -> Tensors:
    """All tensors that a step reads and writes, by name."""
    memory = learner.memory
    found = {
        **{f"net.{name}": p for name, p in learner.net.named_parameters()},
        **{f"net.{name}": b for name, b in learner.net.named_buffers()},
        "memory.x": memory.x,
        "memory.y": memory.y,
        **{f"memory.{name}": column for name, column in memory.extra.items()},
        "seen": learner.seen,
    }
    found |= {f"velocity.{name}": v for name, v in zip(learner.names, learner.velocity, strict=False)}
    if learner.average is not None:
        found |= {"average": learner.average.flat, "age": learner.average.age}
    return found


def _holders(learners: list[Learner]) -> dict[str, list[Any]]:
    """Who holds hyper-parameters."""
    return {
        "method": [learner.method for learner in learners],
        "objective": [learner.objective for learner in learners],
    }


def _kind(holder: Any) -> tuple[Any, ...]:
    """All of a method or a loss but the numbers that may differ in a stack."""
    values = {field.name: getattr(holder, field.name) for field in dataclasses.fields(holder)}
    return type(holder), *options.same_in_a_stack(options.fields(holder), values).items()


def _different(holders: list[Any], learner: Learner) -> Tensors:
    """The hyper-parameters in which they differ [R], by name."""
    found = {}
    for field in dataclasses.fields(holders[0]):
        values = [getattr(holder, field.name) for holder in holders]
        if len(set(values)) > 1:
            found[field.name] = torch.tensor(values, dtype=learner.dtype, device=learner.device)
    return found


def _of(what: str, tensors: Tensors) -> Tensors:
    """Those of the network, the method or the loss, by the names they have there."""
    return {name.partition(".")[2]: tensor for name, tensor in tensors.items() if name.startswith(f"{what}.")}


def _with(holder: Any, values: Tensors) -> Any:
    """A copy of a method or a loss with these hyper-parameters."""
    made = copy.copy(holder)
    for name, value in values.items():
        object.__setattr__(made, name, value)  # frozen for everyone else
    return made


def _stacked(name: str, rows: list[Tensor]) -> Tensor:
    """[R, …]; the weights of convolutions, and their velocities, with their input channels last, as the kernels want them."""
    if rows[0].ndim == 4 and (isinstance(rows[0], nn.Parameter) or name.startswith("velocity.")):
        return torch.stack([row.detach().permute(0, 2, 3, 1) for row in rows]).permute(0, 1, 4, 2, 3)
    return torch.stack([row.detach() for row in rows])


def _repeated(rows: Tensor, n: int) -> Tensor:
    """[R, …] → [R·n, …], each row n times; the weights of convolutions stay as `_stacked` has laid them out."""
    last = rows.movedim(2, -1) if rows.ndim == 5 else rows
    made = last.detach()[:, None].expand(-1, n, *last.shape[1:]).flatten(0, 1)
    return made.movedim(-1, 2) if rows.ndim == 5 else made


def _beside(each: Tensor, values: Tensor) -> Tensor:
    """[R] in the shape in which it multiplies values [R, …]."""
    return each.reshape(-1, *[1] * (values.ndim - 1))


def _below(x: Tensor) -> Tensor:
    """The tensor [R, …] behind one that `vmap` shows without its first dimension."""
    place = maybe_get_bdim(x)
    below: Tensor = get_unwrapped(x)
    return below if place == 0 else below.movedim(place, 0)
