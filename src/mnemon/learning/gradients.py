"""The network's passes in a step, their gradients, and the step of SGD: what methods and losses work with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from mnemon.learning.method import Batch, Method, StepResult
from mnemon.learning.network import Network, Output
from mnemon.learning.objectives import Objective

Parameters = tuple[Tensor, ...]


class Gradients:
    """The part of a learner that differentiates; it changes parameters and their velocity, and nothing else."""

    method: Method
    objective: Objective
    net: Network
    seen: Tensor  # the classes that there are losses for
    names: tuple[str, ...]  # of the parameters that are trained
    parameters: tuple[Tensor, ...]
    velocity: tuple[Tensor, ...]
    decays: bool

    def sample_losses(self, batch: Batch, parameters: Parameters | None = None, *, moving: bool = False) -> Tensor:
        """The loss of each sample [n], at other parameters if given. BatchNorm takes the statistics of the batch, as in
        training, but its running statistics stay as they were, unless `moving`."""
        return self.objective.per_sample(self.forward_frozen(batch, parameters, moving=moving), batch.y, self.seen)

    def forward_frozen(self, batch: Batch, parameters: Parameters | None = None, *, moving: bool = False) -> Output:
        """Pass a batch as in training, at other parameters if given, without changing BatchNorm's running statistics, unless
        `moving`."""
        values = {} if moving else {name: tensor.clone() for name, tensor in self.net.named_buffers()}
        if parameters is not None:
            values |= zip(self.names, parameters, strict=True)
        out: Output = functional_call(self.net, values, (batch.x,))
        return out

    def virtual_step(self, new: Batch) -> Parameters:
        """θᵛ = θ − η ∇L(B_n): where one plain step of SGD on the new samples alone, without momentum and weight decay, would
        lead. θ itself does not move."""
        loss = self.objective(self.forward_frozen(new), new.y, self.seen, len(new))
        gradient = self.differentiate(loss, self.parameters)
        return tuple(p.detach() - self.method.lr * g for p, g in zip(self.parameters, gradient, strict=True))

    def input_gradient(self, batch: Batch, parameters: Parameters | None = None) -> Tensor:
        """∂L/∂x of the mean loss of a batch [n, …], at other parameters if given."""
        x, constant = self.variable(batch.x), tuple(p.detach() for p in parameters or self.parameters)
        return self.differentiate(self.sample_losses(Batch(x, batch.y), constant).mean(), (x,))[0]

    def loss_and_gradient(self, batch: Batch, new: int) -> StepResult:
        """Compute the loss over a batch whose first `new` samples are new, and its gradient."""
        out = self.forward(batch, new)
        return self.with_gradient(self.objective(out, batch.y, self.seen, new), out, batch.y)

    def forward(self, batch: Batch, new: int) -> Output:
        """The step's pass over a batch whose first `new` samples are new: all at once, or these before the others."""
        apart = new if self.method.forward == "separate" and new < len(batch) else 0
        out: Output = self.net(batch.x, apart)
        return out

    def with_gradient(self, loss: Tensor, out: Output, y: Tensor) -> StepResult:
        """Differentiate a loss."""
        return StepResult(loss.detach(), self.differentiate(loss, self.parameters), out.detach(), y)

    def sgd_step(self, gradient: tuple[Tensor, ...]) -> None:
        """Take the step of torch.optim.SGD: g ← g + w·θ; v ← m·v + g; θ ← θ − η·v. Plain, it is θ ← θ − η·g."""
        if not self.parameters:
            return
        if self.decays:
            gradient = self._with_decay(gradient)
        if self.velocity:
            self.multiply(self.velocity, self.method.sgd_momentum)
            self.add(self.velocity, gradient, 1.0)
            gradient = self.velocity
        self.add(self.parameters, gradient, -self.method.lr)

    def _with_decay(self, gradient: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """g + w·θ. Class rows held ready for classes not seen yet do not decay: they are what they are drawn as when their
        class comes."""
        found = []
        for name, p, g in zip(self.names, self.parameters, gradient, strict=True):
            theta = p.detach()
            if name in self.net.class_rows:
                theta = theta * self.seen.reshape(-1, *[1] * (theta.ndim - 1))
            found.append(g + self.method.weight_decay * theta)
        return tuple(found)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within: running statistics and no gradients; afterwards the mode is what it was."""
        training = self.net.training
        self.net.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.net.train(training)

    # --- the five places where it matters whether a learner is one of a stack (stacked/stack.py)

    def differentiate(self, loss: Tensor, at: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """∂loss/∂at. None is taken where nothing is trained (ready-made embeddings and a loss without class rows)."""
        return torch.autograd.grad(loss, at) if at else ()

    def variable(self, x: Tensor) -> Tensor:
        """x as something to differentiate at."""
        return x.detach().requires_grad_()

    def add(self, places: tuple[Tensor, ...], values: tuple[Tensor, ...], factor: float) -> None:
        """places ← places + factor · values, in place."""
        torch._foreach_add_([place.data for place in places], values, alpha=factor)

    def multiply(self, places: tuple[Tensor, ...], factor: float) -> None:
        """places ← factor · places, in place."""
        torch._foreach_mul_([place.data for place in places], factor)

    def batch_gradients(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """∇ of the mean loss of each of n batches, with BatchNorm's running statistics; x [n, m, …], y [n, m] → [n, size of
        the parameter] for each parameter."""

        def loss(parameters: Parameters, x: Tensor, y: Tensor) -> Tensor:
            out = functional_call(self.net, dict(zip(self.names, parameters, strict=True)), (x,))
            return self.objective.per_sample(out, y, self.seen).mean()

        with self.evaluating():
            # On a CPU, convolutions under vmap become grouped ones, which are slower than one batch after the other.
            if x.device.type == "cpu" and x.shape[1] > 1 and any(p.ndim > 2 for p in self.parameters):
                gradient = grad(loss)
                found = [gradient(self.parameters, *batch) for batch in zip(x, y, strict=True)]
                each = tuple(torch.stack(parts) for parts in zip(*found, strict=True))
            else:
                each = vmap(grad(loss), in_dims=(None, 0, 0))(self.parameters, x, y)
        return [g.flatten(1) for g in each]
