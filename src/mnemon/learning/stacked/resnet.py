"""Stem and blocks of R reduced ResNet-18s at once, forward and backward, as one function of autograd.

Under `torch.vmap` over runs it is called with one network's tensors; its vmap rule passes the stack of them to the
kernels, and autograd records that call on the stacked tensors themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from mnemon.learning.backbones.resnet18 import BasicBlock, ReducedResNet18
from mnemon.learning.stacked import kernels
from mnemon.learning.stacked.kernels import Gate, Norm, Numbers, Running


class Unit(NamedTuple):
    """A convolution and its BatchNorm, of all runs (or of one: without the first dimension)."""

    weight: Tensor  # [R, O, I, k, k]
    gamma: Tensor  # [R, O]
    beta: Tensor  # [R, O]
    running_mean: Tensor  # [R, O]
    running_var: Tensor  # [R, O]


class NetworkPlan(NamedTuple):
    """What is not a tensor. The units come in the order stem, then conv1, conv2 and perhaps the shortcut of each block."""

    strides: tuple[int, ...]  # of the blocks
    shortcuts: tuple[bool, ...]  # whether the block's shortcut is a unit
    training: bool
    numbers: Numbers


class Done(NamedTuple):
    """What the backward pass needs of a unit."""

    x: Tensor  # [R, N, H+2, W+2, I]
    weight: Tensor  # [R, O, k, k, I]
    y: Tensor
    mean: Tensor
    rstd: Tensor
    gamma: Tensor
    beta: Tensor

    def norm(self) -> Norm:
        return Norm(self.y, self.mean, self.rstd, self.gamma, self.beta)


def blocks(backbone: ReducedResNet18, x: Tensor, training: bool, precision: str) -> Tensor:
    """backbone.blocks(backbone.stem(x)): images [N, 3, H, W] → the last map [N, C, h, w] in float32; "fp32", "tf32" or
    "bf16" inside. Under vmap for all runs at once. In training mode BatchNorm's running statistics change in place."""
    made = [cast(BasicBlock, block) for block in backbone.blocks]
    plan = NetworkPlan(
        tuple(block.conv1.stride[0] for block in made),
        tuple(not isinstance(block.shortcut, nn.Identity) for block in made),
        training,
        kernels.NUMBERS[precision],
    )
    tensors = [tensor for unit in _units(backbone, made) for tensor in unit]
    if torch._C._are_functorch_transforms_active():
        return cast(Tensor, OfOne.apply(plan, x, *tensors))  # type: ignore[no-untyped-call]
    return _stacked(plan, x[None], [tensor[None] for tensor in tensors])[0]


def _units(backbone: ReducedResNet18, made: list[BasicBlock]) -> Iterator[Unit]:
    yield _unit(backbone.stem[0], backbone.stem[1])
    for block in made:
        yield _unit(block.conv1, block.bn1)
        yield _unit(block.conv2, block.bn2)
        if isinstance(block.shortcut, nn.Sequential):
            yield _unit(block.shortcut[0], block.shortcut[1])


def _unit(conv: nn.Module, bn: nn.Module) -> Unit:
    """Read at the time of the call: torch.func.functional_call may have put other tensors in."""
    return Unit(*(cast(Tensor, t) for t in (conv.weight, bn.weight, bn.bias, bn.running_mean, bn.running_var)))


class OfOne(torch.autograd.Function):
    """One network's tensors under vmap. Only the vmap rule does anything."""

    @staticmethod
    def forward(plan: NetworkPlan, x: Tensor, *tensors: Tensor) -> Tensor:
        raise RuntimeError("OfOne works under torch.vmap only.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise RuntimeError("OfOne works under torch.vmap only.")

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], plan: NetworkPlan, x: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, int]:
        runs: int = info.batch_size

        def stack(tensor: Tensor, dim: int | None) -> Tensor:
            return tensor.expand(runs, *tensor.shape) if dim is None else tensor.movedim(dim, 0)

        if plan.training and None in in_dims[5::5] + in_dims[6::5]:
            raise RuntimeError("in training every run needs running statistics of its own.")
        dims = in_dims[2:]
        return _stacked(plan, stack(x, in_dims[1]), [stack(t, d) for t, d in zip(tensors, dims, strict=True)]), 0


def _stacked(plan: NetworkPlan, x: Tensor, tensors: list[Tensor]) -> Tensor:
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (x, *tensors))
    return cast(Tensor, OfStack.apply(plan, keep, x, *tensors))  # type: ignore[no-untyped-call]


class OfStack(torch.autograd.Function):
    """x [R, N, 3, H, W] and the units' tensors, each with the runs first → [R, N, C, h, w]."""

    @staticmethod
    def forward(ctx: Any, plan: NetworkPlan, keep: bool, x: Tensor, *tensors: Tensor) -> Tensor:
        units = [Unit(*tensors[i : i + 5]) for i in range(0, len(tensors), 5)]
        done: list[Done] | None = [] if keep else None
        out = forward(plan, x, units, done)
        if done is not None:
            ctx.plan = plan
            ctx.layouts = [unit.weight.stride() for unit in units]
            ctx.save_for_backward(out, *(tensor for unit in done for tensor in unit))
        return out.permute(0, 1, 4, 2, 3)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        out, *saved = ctx.saved_tensors
        size = len(Done._fields)
        done = [Done(*saved[i : i + size]) for i in range(0, len(saved), size)]
        of_x, of_weights = ctx.needs_input_grad[2], any(ctx.needs_input_grad[3:])
        dx, found = backward(ctx.plan, gradient, out, done, of_x, of_weights)
        gradients = []
        for (weight, gamma, beta), layout in zip(found, ctx.layouts, strict=True):
            gradients += [None if weight is None else _laid_out(weight, layout), gamma, beta, None, None]
        return None, None, dx, *gradients


def _laid_out(gradient: Tensor, layout: tuple[int, ...]) -> Tensor:
    """[R, O, k, k, I] → [R, O, I, k, k] with the strides of the weights, if they lie channels-last: strides of dimensions
    of 1 have to agree as well for the update of all weights to be one kernel."""
    turned = gradient.permute(0, 1, 4, 2, 3)
    same = all(a == b or n == 1 for a, b, n in zip(turned.stride(), layout, turned.shape, strict=True))
    return turned.as_strided(turned.shape, layout) if same else turned


def forward(plan: NetworkPlan, x: Tensor, units: list[Unit], done: list[Done] | None) -> Tensor:
    """→ the last map [R, N, h, w, C] in float32; what the backward pass needs goes to `done`."""
    if done is None and not plan.training:
        return infer(plan, x, units)
    left = iter(units)

    def norm(a: Tensor, stride: int) -> Norm:
        """The next unit at the activations a."""
        unit = next(left)
        w = unit.weight.permute(0, 1, 3, 4, 2).contiguous()  # no copy where weights lie channels-last
        y, stats = kernels.convolve(a, w, stride, plan.numbers, plan.training)
        running = (unit.running_mean, unit.running_var)
        if not plan.training:
            running = (running[0].contiguous(), running[1].contiguous())
        pixels = y.shape[1] * y.shape[2] * y.shape[3]
        mean, rstd = kernels.statistics(stats, pixels, *running, plan.training)
        made = Norm(y, mean, rstd, unit.gamma.contiguous(), unit.beta.contiguous())
        if done is not None:
            done.append(Done(a, w, *made))
        return made

    a = kernels.activate(norm(kernels.load_input(x, plan.numbers), 1), None, plan.numbers)
    last = len(plan.strides) - 1
    for i, (stride, shortcut) in enumerate(zip(plan.strides, plan.shortcuts, strict=True)):
        b = kernels.activate(norm(a, stride), None, plan.numbers)
        second = norm(b, 1)
        a = kernels.activate(second, norm(a, stride) if shortcut else a, plan.numbers, halo=i < last)
    return a


def infer(plan: NetworkPlan, x: Tensor, units: list[Unit]) -> Tensor:
    """The same in eval mode, where nothing is kept for a backward pass: each layer is one kernel."""
    left, numbers, last = iter(units), plan.numbers, len(plan.strides) - 1

    def layer(unit: Unit, a: Tensor, stride: int, short: Tensor | None = None, **how: Any) -> Tensor:
        w = unit.weight.permute(0, 1, 3, 4, 2).contiguous()
        norm = Running(*(t.contiguous() for t in (unit.running_mean, unit.running_var, unit.gamma, unit.beta)))
        return kernels.infer(a, w, stride, norm, short, numbers, **how)

    a = layer(next(left), kernels.load_input(x, numbers), 1)
    for i, (stride, shortcut) in enumerate(zip(plan.strides, plan.shortcuts, strict=True)):
        b, second = layer(next(left), a, stride), next(left)
        short = layer(next(left), a, stride, relu=False, halo=False) if shortcut else a
        a = layer(second, b, 1, short, halo=i < last, dtype=None if i < last else torch.float32)
    return a


def backward(
    plan: NetworkPlan, d: Tensor, out: Tensor, done: list[Done], of_x: bool, of_weights: bool
) -> tuple[Tensor | None, list[tuple[Tensor | None, Tensor, Tensor]]]:
    """The gradient d [R, N, C, h, w] of the last map → those asked for of x and of every unit's weight [R, O, k, k, I]; of γ
    and β always, which cost nothing."""
    numbers, training = plan.numbers, plan.training
    found: list[tuple[Tensor | None, Tensor, Tensor]] = []  # last unit first

    def weight(unit: Done, dy: Tensor, stride: int) -> Tensor | None:
        _, _, side, _, inputs = unit.weight.shape
        return kernels.weight_gradient(unit.x, dy, side, inputs, stride, numbers) if of_weights else None

    def gate_of(block: int, result: Tensor) -> Gate:
        """What `result`, the output of a block (or of the stem: −1), went through last."""
        if block < 0:
            return Gate(done[0].norm())
        _, second, short = parts[block]
        return Gate(second.norm(), result, None if short is None else short.norm())

    left = iter(done[1:])
    parts = [(next(left), next(left), next(left) if shortcut else None) for shortcut in plan.shortcuts]
    last = len(parts) - 1
    g, sums = kernels.through_gate(d.permute(0, 1, 3, 4, 2).contiguous(), gate_of(last, out), numbers)
    for i in range(last, -1, -1):
        (first, second, short), stride = parts[i], plan.strides[i]
        total = kernels.add_tiles(sums, 2 if short is None else 3)
        dy, dy_short = kernels.norm_gradient(g, second.norm(), short and short.norm(), total, training, numbers)
        if short is not None:
            found.append((weight(short, dy_short, stride), total[2], total[0]))
        found.append((weight(second, dy, 1), total[1], total[0]))
        inner, sums = kernels.input_gradient(dy, second.weight, None, Gate(first.norm()), numbers)
        total = kernels.add_tiles(sums, 2)
        dy, _ = kernels.norm_gradient(inner, first.norm(), None, total, training, numbers)
        found.append((weight(first, dy, stride), total[1], total[0]))
        before = gate_of(i - 1, first.x)
        if short is None:
            g, sums = kernels.input_gradient(dy, first.weight, g, before, numbers)
        else:
            h, w = first.x.shape[2] - 2, first.x.shape[3] - 2
            g, sums = kernels.strided_gradient(dy, first.weight, dy_short, short.weight, h, w, before, numbers)
    stem = done[0]
    total = kernels.add_tiles(sums, 2)
    dy, _ = kernels.norm_gradient(g, stem.norm(), None, total, training, numbers)
    found.append((weight(stem, dy, 1), total[1], total[0]))
    dx = kernels.input_gradient(dy, stem.weight, None, None, numbers)[0].permute(0, 1, 4, 2, 3) if of_x else None
    return dx, found[::-1]
