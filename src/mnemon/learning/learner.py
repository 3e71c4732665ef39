"""The learner: all state in one place, and the step every method shares."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from mnemon import draws
from mnemon.errors import Diverged, MnemonError
from mnemon.learning import backbones
from mnemon.learning.classifiers import Classifier
from mnemon.learning.memory import Memory
from mnemon.learning.method import Batch, Draws, Method, Span
from mnemon.learning.network import Network, Output
from mnemon.learning.objectives import Objective

Parameters = tuple[Tensor, ...]

BLOCK = 128  # steps planned ahead at once
EVALUATED = 1000  # samples per forward pass outside of training


class Inputs(NamedTuple):
    """What the samples are: their shape and type as they come, and the affine map to the network's input."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.uint8
    mean: float = 127.5
    std: float = 127.5


class Learner:
    """A method at work. Everything that changes is a tensor of `state()` or one of the counters `steps`, `samples`."""

    def __init__(
        self,
        method: Method,
        objective: Objective,
        inputs: Inputs,
        *,
        backbone: backbones.Backbone = "auto",
        seed: int = 0,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.method, self.objective, self.inputs = method, objective, inputs
        self.seed, self.device, self.dtype = seed, torch.device(device), dtype
        init = int(draws.words(seed, "network", 0, 1)[0] >> 1)  # torch takes 63 bits
        body = backbones.build(backbone, inputs.shape, init)
        rows = objective.trains
        self.net = Network(
            body, backbones.feature_size(body, inputs.shape), head=rows == "head", proxies=rows == "proxies", seed=seed
        ).to(self.device, dtype)
        self.memory = Memory(
            method.memory_size if method.replays else 0,
            inputs.shape,
            dtype if method.edits_memory else inputs.dtype,
            self.device,
            method.columns,
        )
        self.seen = torch.zeros(self.net.capacity, dtype=torch.bool, device=self.device)
        self.bad_step = torch.full((), -1, device=self.device)  # the first step whose loss was not finite
        self.steps = self.samples = 0
        self._set_parameters()

    def _set_parameters(self) -> None:
        trained = {name: p for name, p in self.net.named_parameters() if p.requires_grad}
        self._names, self.parameters = tuple(trained), tuple(trained.values())

    # --- learning

    def learn(self, x: Tensor, y: Tensor, rows: NDArray[np.int64], proceed: Callable[[], bool] = lambda: True) -> int:
        """Learn batches in order: rows [S, b] of the raw samples x and class indices y, which stay on the device.

        After each step `proceed` is asked whether to go on. Returns how many batches were learned.
        """
        before = self.steps
        self.net.train()
        index = torch.from_numpy(rows).to(self.device)
        for batch, draws_ in zip(index, self._draws(*rows.shape), strict=True):
            self.step(x.index_select(0, batch), y.index_select(0, batch), draws_)
            self.steps += 1
            self.samples += rows.shape[1]
            if not proceed():
                break
        return self.steps - before

    def step(self, x: Tensor, y: Tensor, draws_: Draws) -> None:
        """One batch B_n of the stream: retrieve, gradient, SGD, write. The same shapes at each step, no word to the host."""
        method, new = self.method, Batch(self.normalise(x), y)
        self.seen.index_fill_(0, y, True)  # before the loss: a class counts as seen from its first batch on
        replayed = method.retrieve(self, new, draws_)
        loss, gradient = method.gradient(self, new, replayed)
        torch._foreach_add_([p.data for p in self.parameters], gradient, alpha=-method.lr)
        self.objective.after(self.net)
        method.write(self, x, y, draws_)
        bad = (self.bad_step < 0) & ~torch.isfinite(loss.detach())
        torch.where(bad, draws_["step"], self.bad_step, out=self.bad_step)

    def _draws(self, steps: int, batch: int) -> Iterator[Draws]:
        """The draws of each coming step, planned in blocks of equal shapes."""
        step, sample, last = self.steps, self.samples, self.steps + steps
        while step < last:
            few = sample < self.method.rows_needed()  # then each step replays a different number of rows
            count = 1 if few else min(BLOCK, last - step)
            plan = self.method.plan(Span(self.seed, step, sample, count, batch))
            plan["step"] = np.arange(step, step + count)
            block = {key: torch.from_numpy(rows).to(self.device) for key, rows in plan.items()}
            for s in range(count):
                yield {key: rows[s] for key, rows in block.items()}
            step, sample = step + count, sample + count * batch

    def grow(self, classes: int) -> None:
        """Hold room for at least `classes` classes: the capacity doubles until it is enough."""
        capacity = self.net.capacity
        while capacity < classes:
            capacity *= 2
        if capacity > self.net.capacity:
            self.net.grow(capacity)
            self.seen = torch.cat([self.seen, self.seen.new_zeros(capacity - len(self.seen))])
            self._set_parameters()

    def check(self) -> None:
        """Stop with a sentence if a loss was not finite."""
        step = int(self.bad_step)
        if step >= 0:
            raise Diverged(
                f"the loss {self.objective.name} of {self.method.name} was not finite at step {step}: training diverged "
                f"(learning rate {self.method.lr}) or an input was not finite."
            )

    # --- what methods, losses and classifiers work with

    def normalise(self, x: Tensor) -> Tensor:
        """Samples as they came → network input."""
        out = x.to(self.dtype)
        if self.inputs.mean != 0.0 or self.inputs.std != 1.0:
            out = (out - self.inputs.mean) / self.inputs.std
        return out

    def replay(self, rows: Tensor) -> Batch:
        """Memory rows as a batch."""
        return Batch(self._input(self.memory.x.index_select(0, rows)), self.memory.y.index_select(0, rows))

    def _input(self, stored: Tensor) -> Tensor:
        """What the memory holds → network input."""
        return stored if self.method.edits_memory else self.normalise(stored)

    def sample_losses(self, batch: Batch, parameters: Parameters | None = None) -> Tensor:
        """The loss of each sample [n], at other parameters if given. BatchNorm takes the statistics of the batch, as in
        training, but its running statistics stay as they were."""
        values = dict(self.net.named_buffers())
        values = {name: tensor.clone() for name, tensor in values.items()}
        if parameters is not None:
            values |= zip(self._names, parameters, strict=True)
        return self.objective.per_sample(functional_call(self.net, values, (batch.x,)), batch.y, self.seen)

    def virtual_step(self, new: Batch) -> Parameters:
        """θᵛ = θ − η ∇L(B_n): where one step on the new samples alone would lead. θ itself does not move."""
        gradient = torch.autograd.grad(self.sample_losses(new).mean(), self.parameters)
        return tuple(p.detach() - self.method.lr * g for p, g in zip(self.parameters, gradient, strict=True))

    def loss(self, batch: Batch, new: int) -> Tensor:
        """The objective over a batch whose first `new` samples are new, in one forward pass."""
        return self.objective(self.net(batch.x), batch.y, self.seen, new)

    def parameter_count(self) -> int:
        """Trained numbers; of the class rows, those of the classes seen."""
        net, classes = self.net, int(self.seen.sum())
        rows = [p for p in (net.head_weight, net.head_bias, net.proxies) if p is not None]
        return sum(p.numel() for p in self.parameters) - sum(p[0].numel() * (len(p) - classes) for p in rows)

    def filled(self) -> int:
        """Memory rows in use."""
        return min(self.samples, self.memory.size)

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

    def memory_features(self) -> Tensor:
        """f of every memory row, in eval mode; [filled, d]."""
        rows = self.memory.x[: self.filled()]
        with self.evaluating():
            return torch.cat([self.net(self._input(part)).features for part in torch.split(rows, EVALUATED)])

    # --- prediction

    def scores(self, x: Tensor, classifiers: list[Classifier]) -> list[Tensor]:
        """Scores [n, capacity] of each classifier for raw samples x; the features are computed once for all."""
        if self.samples == 0:
            raise MnemonError("nothing was learned yet, so nothing can be predicted.")
        with self.evaluating():
            prepared = [classifier.prepare(self) for classifier in classifiers]
            outputs: list[Output] = [self.net(self.normalise(part)) for part in torch.split(x, EVALUATED)]
            return [torch.cat([scores(out) for out in outputs]) for scores in prepared]

    # --- state

    def state(self) -> dict[str, Tensor]:
        """All tensors that change, by name (views, not copies)."""
        return {
            **{f"net.{name}": tensor for name, tensor in self.net.state_dict().items()},
            "memory.x": self.memory.x[: self.memory.size],
            "memory.y": self.memory.y[: self.memory.size],
            **{f"memory.{name}": column[: self.memory.size] for name, column in self.memory.extra.items()},
            "seen": self.seen,
            "bad_step": self.bad_step,
        }

    def restore(self, state: dict[str, Tensor], *, steps: int, samples: int) -> None:
        """Go on from a saved state, bit for bit; a state of another shape is refused."""
        self.grow(len(state["seen"]) if "seen" in state else 0)
        own = self.state()
        if own.keys() != state.keys() or any(
            own[k].shape != state[k].shape or own[k].dtype != state[k].dtype for k in own
        ):
            raise MnemonError("the saved state does not belong to this network, memory and loss.")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])
        self.steps, self.samples = steps, samples
