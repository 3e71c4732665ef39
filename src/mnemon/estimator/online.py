"""A learner for streams that were not prepared: it scales features as they come and takes batches of one sample."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from mnemon.estimator.keeping import Keeper, Rows
from mnemon.learning.gradients import Parameters
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.memory import EMPTY
from mnemon.learning.method import Batch, Draws, Method, Plan, Span, StepResult
from mnemon.learning.network import Output

CLIP = 5.0  # standard deviations; a feature that was constant so far may jump by any number of them
LATEST = 10  # samples the features of a class without a row are averaged over: the network has moved since older ones


def has_reservoir(method: type[Method]) -> bool:
    """Whether the method's memory is a reservoir, whose rows the estimator may choose otherwise."""
    return method.replays and method.memory_rule == Method.memory_rule


class Scaling:
    """Running mean and variance of each feature (vectors) or channel (images), over all samples so far.

    The memory keeps raw samples, so replayed ones are always scaled as new ones are.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.mean = torch.zeros(width, dtype=torch.float64, device=device)
        self.squares = torch.zeros(width, dtype=torch.float64, device=device)  # sum of squared distances from the mean

    def update(self, x: Tensor) -> None:
        """Take in a batch [n, width, …]; Chan's formula joins its moments with those so far."""
        values = x.movedim(1, -1).reshape(-1, len(self.mean)).double()
        count = self.count + len(values)
        mean = values.mean(0)
        away = mean - self.mean
        self.squares += (values - mean).square().sum(0) + away.square() * self.count * len(values) / count
        self.mean += away * len(values) / count
        self.count.copy_(count)

    def __call__(self, x: Tensor) -> Tensor:
        wide = (-1, *[1] * (x.ndim - 2))  # one number a channel, for all its pixels
        return ((x.double() - self.mean.reshape(wide)) / self.deviations().reshape(wide)).clamp(-CLIP, CLIP)

    def beyond(self, x: Tensor) -> Tensor:
        """By how much samples are outside of what `__call__` lets through [n]: the root mean square of their deviations over
        the features that vary, by the largest that is let through; 1 within."""
        wide = (-1, *[1] * (x.ndim - 2))
        away = (x.double() - self.mean.reshape(wide)) * self.reciprocals().reshape(wide)
        return (away.flatten(1).square().mean(1).sqrt() / CLIP).clamp(min=1.0)

    def deviations(self) -> Tensor:
        """The standard deviation of what varies, 1 for what is constant."""
        std = self._std()
        return torch.where(self._varies(std), std, 1.0)

    def reciprocals(self) -> Tensor:
        """1 / standard deviation of what varies, 0 for what is constant."""
        std = self._std()
        varies = self._varies(std)
        return torch.where(varies, 1 / torch.where(varies, std, 1.0), 0.0)

    def _std(self) -> Tensor:
        return (self.squares / self.count.clamp(min=1)).sqrt()

    def _varies(self, std: Tensor) -> Tensor:
        """What varies by no more than float32 can hold is constant: its mean is taken off, its noise not blown up."""
        return std > 1e-7 * self.mean.abs()

    def fixed(self) -> Fixed:
        """A copy as it is now."""
        return Fixed(self)

    def state(self) -> dict[str, Tensor]:
        return {"scaling.count": self.count, "scaling.mean": self.mean, "scaling.squares": self.squares}


class Fixed(Scaling):
    """Takes nothing in any more, so what depends on the moments alone is computed once: a prediction has few operations."""

    def __init__(self, scaling: Scaling) -> None:
        self.count, self.mean, self.squares = scaling.count.clone(), scaling.mean.clone(), scaling.squares.clone()
        self._deviations, self._reciprocals = super().deviations(), super().reciprocals()

    def deviations(self) -> Tensor:
        return self._deviations

    def reciprocals(self) -> Tensor:
        return self._reciprocals


class OnlineLearner(Learner):
    """`scaled`: samples are scaled by what was seen so far instead of by the fixed map of `inputs`.
    `floor`: every class keeps rows of the memory; one for which there is no room keeps the mean of its features.
    `half_life`: samples of a class after which half of its rows are replaced; "auto": rows of a class that has drifted are.
    """

    def __init__(
        self, *args: Any, scaled: bool, floor: bool = False, half_life: float | str | None = None, **named: Any
    ) -> None:
        super().__init__(*args, **named)
        inputs: Inputs = self.inputs
        self.scaling = Scaling(inputs.shape[0], self.device) if scaled else None
        body = self.net.backbone
        self._fixed_body = not any(p.requires_grad for p in body.parameters())
        self._norms = [] if self._fixed_body else [m for m in self.net.modules() if isinstance(m, _BatchNorm)]
        self.half_life = half_life
        # Methods that choose their rows themselves know neither a floor nor an age.
        self.keeps = (floor or half_life is not None) and has_reservoir(type(self.method))
        self.stale = torch.zeros(self.memory.size, dtype=torch.bool)  # rows of a drifted class, on the host
        # Of classes without a row: the mean of their features as they were, and of how many samples. No rows until needed.
        self.apart = torch.zeros(0, self.net.dim, dtype=self.dtype, device=self.device)
        self.apart_counts = torch.zeros(0, dtype=torch.int64, device=self.device)

    def plan(self, span: Span) -> Plan:
        plan = super().plan(span)
        if not self.keeps:
            return plan
        held = self.memory.y[: self.memory.size].cpu().numpy()
        rows = Rows.of(held, self.stale.numpy(), len(self.counts))
        age = self.half_life if isinstance(self.half_life, float | int) else None
        plan = plan | Keeper(rows, span, age).plan(plan["write"])
        self.stale = torch.from_numpy(rows.stale)
        return plan

    def step(self, x: Tensor, y: Tensor, draws: Draws) -> Tensor:
        if self.scaling is not None:
            self.scaling.update(x)
        if "leave" in draws:
            self._remember(x, y, draws["leave"], draws["apart"])
        if self._fixed_body:  # a network that is not trained keeps its BatchNorm statistics too
            self.net.backbone.eval()
        loss = super().step(x, y, draws)
        if "copy" in draws:
            self.memory.copy(*draws["copy"])
        return loss

    def discount(self, c: int) -> None:
        """A class has drifted: its rows are replaced by its next samples. An average that follows the stream does so at once,
        as when a class is new."""
        self.stale |= (self.memory.y[: self.memory.size] == c).cpu()
        if self.average is not None and isinstance(self.method.average, str):
            self.average.age.zero_()

    def rowless(self) -> int:
        """Classes that were seen and have no row in the memory."""
        held = torch.zeros_like(self.seen)
        rows = self.memory.y[: self.memory.size]
        held[rows[rows != EMPTY]] = True
        return int((self.seen & ~held).sum())

    def _remember(self, x: Tensor, y: Tensor, leave: Tensor, apart: Tensor) -> None:
        """Keep the mean features of classes whose last row is about to be overwritten, or that have none and get none."""
        leave, apart = leave[leave < self.memory.size], apart[apart < len(y)]
        if not len(leave) + len(apart):
            return
        if not len(self.apart_counts):
            self._grow_apart(len(self.seen))
        stored = self._input(self.memory.x[leave])
        with self.evaluating():
            f = self.predict_output(torch.cat([stored, self.normalise(x[apart])])).features
        classes, index = torch.unique(torch.cat([self.memory.y[leave], y[apart]]), return_inverse=True)
        n = torch.bincount(index, minlength=len(classes))
        mean = torch.zeros_like(self.apart[classes]).index_add_(0, index, f.to(self.dtype)) / n[:, None]
        self.apart_counts[classes] += n
        share = (n / self.apart_counts[classes].clamp(max=LATEST)).clamp(max=1)
        self.apart[classes] += share[:, None] * (mean - self.apart[classes])

    def _grow_apart(self, classes: int) -> None:
        more = classes - len(self.apart_counts)
        self.apart = torch.cat([self.apart, self.apart.new_zeros(more, self.apart.shape[1])])
        self.apart_counts = torch.cat([self.apart_counts, self.apart_counts.new_zeros(more)])

    def memory_features(self) -> tuple[Tensor, Tensor]:
        """As any learner's; a class that has no row and was remembered has its mean in place of one."""
        f, y = super().memory_features()
        if not len(self.apart_counts):
            return f, y
        alone = self.seen & (self.apart_counts > 0)
        alone[y] = False
        c = alone.nonzero().flatten()
        return torch.cat([f, self.apart[c].to(f.dtype)]), torch.cat([y, c])

    def grow(self, classes: int) -> None:
        super().grow(classes)
        if len(self.apart_counts):
            self._grow_apart(len(self.seen))

    def regroup(self, source: list[int], to: list[int]) -> None:
        if len(self.apart_counts):
            rows = torch.tensor(source, dtype=torch.int64, device=self.device)
            for table in (self.apart, self.apart_counts):
                table[: len(to)] = torch.cat([table[rows], torch.zeros_like(table[: len(to) - len(source)])])
        super().regroup(source, to)
        self.stale &= False  # the rows stand in other places now

    def normalise(self, x: Tensor) -> Tensor:
        return super().normalise(x) if self.scaling is None else self.scaling(x).to(self.dtype)

    def over_all(self) -> tuple[Tensor, Tensor] | None:
        """Mean and variance of each feature so far, where they are scaled."""
        if self.scaling is None:
            return None
        return self.scaling.mean, self.scaling.squares / self.scaling.count.clamp(min=1)

    def state(self) -> dict[str, Tensor]:
        found = super().state() | (self.scaling.state() if self.scaling is not None else {})
        if self.keeps:
            found |= {"apart.means": self.apart, "apart.counts": self.apart_counts, "memory.stale": self.stale}
        return found

    def restore(self, state: dict[str, Tensor], *, steps: int, samples: int) -> None:
        if self.keeps and len(state.get("apart.counts", ())):
            self.grow(len(state["seen"]) if "seen" in state else 0)
            self._grow_apart(len(self.seen))
        super().restore(state, steps=steps, samples=samples)

    def loss_and_gradient(self, batch: Batch, new: int) -> StepResult:
        with self._alone(batch):
            return super().loss_and_gradient(batch, new)

    def forward_frozen(self, batch: Batch, parameters: Parameters | None = None, *, moving: bool = False) -> Output:
        with self._alone(batch):
            return super().forward_frozen(batch, parameters, moving=moving)

    @contextlib.contextmanager
    def _alone(self, batch: Batch) -> Iterator[None]:
        """A single sample has no statistics of its own: for it BatchNorm takes the running ones."""
        norms = self._norms if len(batch) == 1 else []
        for norm in norms:
            norm.eval()
        try:
            yield
        finally:
            for norm in norms:
                norm.train()
