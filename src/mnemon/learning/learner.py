"""The learner: all state in one place, and the step every method shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from mnemon import rng
from mnemon.errors import Diverged, MnemonError
from mnemon.learning import augmentation, backbones
from mnemon.learning.augmentation import zero_border
from mnemon.learning.averaging import Average
from mnemon.learning.classifier import Classifier
from mnemon.learning.gaussian import Gaussian
from mnemon.learning.gradients import Gradients
from mnemon.learning.memory import EMPTY, Memory
from mnemon.learning.method import Batch, Draws, Method, Plan, Span, StepResult, draws_of
from mnemon.learning.network import Network, Output
from mnemon.learning.objectives import Objective
from mnemon.runtime.seeding import seeded

BLOCK = 128  # steps planned ahead at once
EVALUATED = {"cpu": 1000, "cuda": 5000}  # samples per forward pass outside of training


class Inputs(NamedTuple):
    """What the samples are: their shape and type as they come, and the affine map to the network's input."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.uint8
    mean: float = 127.5
    std: float = 127.5


Retrieve = Callable[["Learner", Batch, Draws], Batch | None]


class Block(NamedTuple):
    """Steps of one phase: their shapes are the same, and their draws are made."""

    span: Span
    phase: int
    plan: Plan


class Snapshot(NamedTuple):
    """A learner at one moment, held in memory."""

    state: dict[str, Tensor]
    steps: int
    samples: int
    statistics: Gaussian | None = None  # of a learner that keeps them


class Learner(Gradients):
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
        bf16: bool = False,
    ) -> None:
        self.method, self.objective, self.inputs = method, objective, inputs
        self.seed, self.device, self.dtype = seed, torch.device(device), dtype
        self.eval_batch_size = EVALUATED.get(self.device.type, EVALUATED["cpu"])
        method.accept(inputs.shape)
        init = (rng.words(seed, "network", 0, 2) >> np.uint64(1)).tolist()  # torch takes 63 bits
        body = backbones.build(backbone, inputs.shape, init[0])
        d = backbones.feature_size(body, inputs.shape)
        with seeded(init[1]):
            layers = objective.layers(d)
        e = d if layers is None else backbones.feature_size(layers, (d,))
        rows = [name for name in (objective.trains, objective.keeps) if name]
        self.net = Network(body, d, rows, layers=layers, layers_dim=e, seed=seed, bf16=bf16).to(self.device, dtype)
        if self.device.type == "cpu" or bf16:  # where convolutions are faster that way
            self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.memory = Memory(
            method.memory_size if method.replays else 0,
            inputs.shape,
            dtype if method.edits_memory else inputs.dtype,
            self.device,
            method.columns,
            capacity=self.net.capacity,
            floats=dtype,
        )
        self.expected: int | None = None  # number of classes that can come, where it is known
        self.seen = torch.zeros(self.net.capacity, dtype=torch.bool, device=self.device)
        self.counts = torch.zeros(self.net.capacity, dtype=torch.int64)  # samples of each class so far, on the host
        self.bad_step = torch.full((), -1, device=self.device)  # the first step whose loss was not finite
        self.steps = self.samples = 0
        self._set_parameters()
        # v of each parameter; none without momentum. A class row that is new has not moved yet.
        self.velocity = tuple(torch.zeros_like(p, requires_grad=False) for p in self.parameters if method.sgd_momentum)
        self.decays = method.weight_decay != 0
        self.average = Average(self.moving(), self.device) if method.average != 0 else None  # what predicts, if not θ

    def _set_parameters(self) -> None:
        trained = {name: p for name, p in self.net.named_parameters() if p.requires_grad}
        self.names, self.parameters = tuple(trained), tuple(trained.values())
        self.buffers = tuple(name for name, b in self.net.named_buffers() if b.is_floating_point())

    def moving(self) -> dict[str, Tensor]:
        """What learning changes in the network: parameters, class rows, BatchNorm's running statistics."""
        buffers = dict(self.net.named_buffers())
        return dict(zip(self.names, self.parameters, strict=True)) | {name: buffers[name] for name in self.buffers}

    # --- learning

    def learn(self, x: Tensor, y: Tensor, rows: NDArray[np.int64], proceed: Callable[[], bool] = lambda: True) -> int:
        """Learn batches in order: rows [S, b] of the raw samples x and class indices y, which stay on the device.

        After each step `proceed` is asked whether to go on. Returns how many batches were learned.
        """
        before = self.steps
        self.net.train()
        index = torch.from_numpy(rows).to(self.device)
        classes = y.index_select(0, index.flatten()).reshape(index.shape).cpu().numpy()
        batches = iter(index.unbind())
        going = True
        for block in self.blocks(classes):
            drawn = {key: torch.from_numpy(values).to(self.device).unbind() for key, values in block.plan.items()}
            losses: list[Tensor] = []
            while going and len(losses) < block.span.steps:
                batch, draws = next(batches), {key: each[len(losses)] for key, each in drawn.items()}
                losses.append(self.step(x.index_select(0, batch), y.index_select(0, batch), draws))
                self.steps += 1
                going = proceed()
            self.record_steps(block.span.classes[: len(losses)], torch.stack(losses))
            if not going:
                break
        return self.steps - before

    def record_steps(self, classes: NDArray[np.int64], losses: Tensor) -> None:
        """Record the classes [steps, b] and losses [steps] of the last steps."""
        self.samples += classes.size
        self.counts += torch.from_numpy(np.bincount(classes.ravel(), minlength=len(self.counts)))
        bad = ~torch.isfinite(losses)
        first = torch.where(bad.any(), bad.int().argmax() + self.steps - len(classes), -1)
        torch.where(self.bad_step < 0, first, self.bad_step, out=self.bad_step)

    def step(self, x: Tensor, y: Tensor, draws: Draws) -> Tensor:
        """One batch B_n of the stream: retrieve, gradient, SGD, as many times as there are iterations; write; average. The same
        shapes at each step, no word to the host.

        Returns the loss of the last iteration.
        """
        method, new = self.method, Batch(self.normalise(x), y)
        known = self.seen.index_select(0, y).all() if self.average is not None else None
        # Before the loss: a class counts as seen from its first batch on.
        self.seen[y] = torch.ones_like(y, dtype=torch.bool)
        done = self._iteration(new, draws, method.retrieve)
        for i in range(1, method.iterations):
            done = self._iteration(new, draws_of(draws, i), method.retrieve_again)
        method.write(self, x, y, draws, done)
        if self.average is not None and known is not None:
            self.average.update(self.moving(), method.average, known)
        return done.loss

    def _iteration(self, new: Batch, draws: Draws, retrieve: Retrieve) -> StepResult:
        replayed = retrieve(self, new, draws)
        if self.method.augment != "none":
            new, replayed = self._augmented(new, replayed, draws["augment"])
        done = self.method.gradient(self, new, replayed)
        self.sgd_step(done.gradient)
        self.objective.after(self.net, done.out, done.y)
        return done

    def _augmented(self, new: Batch, replayed: Batch | None, u: Tensor) -> tuple[Batch, Batch | None]:
        """B_n, unless only what is replayed is augmented, and B_r, with their images shifted and mirrored. What was chosen by a
        look at the images, and what enters the memory, is the images as they came."""
        of_new, of_replayed = torch.split(u, [len(new), len(u) - len(new)])
        if self.method.augment == "all":
            new = Batch(zero_border(new.x, of_new), new.y, new.rows)
        if replayed is not None:
            if len(replayed) > len(of_replayed):
                raise MnemonError(
                    f"{self.method.name} replays {len(replayed)} samples, and its most_replayed() says {len(of_replayed)}."
                )
            x = zero_border(replayed.x, of_replayed[: len(replayed)])
            replayed = Batch(x, replayed.y, replayed.rows)
        return new, replayed

    def plan(self, span: Span) -> Plan:
        """The draws of some steps of one phase: the method's, and those of the options that every method has.

        Further iterations i over a batch have what is drawn for the first one drawn again, with a seed of their own, under the
        names `KEY#i`; but not what only `write` or the first iteration reads."""
        plan = self._plan(span)
        if self.method.iterations > 1:
            seeds = (rng.words(span.seed, "iteration", 0, self.method.iterations) >> np.uint64(1)).tolist()
            for i, seed in enumerate(seeds[1:], 1):
                again = self._plan(span._replace(seed=seed))
                plan = plan | {f"{key}#{i}": v for key, v in again.items() if key not in self.method.drawn_for_write}
        return plan

    def _plan(self, span: Span) -> Plan:
        """What one iteration draws."""
        plan = self.method.plan(span)
        if self.method.augment != "none":
            replayed = self.method.most_replayed()
            start = span.sample + span.step * replayed  # samples that had their numbers before
            u = augmentation.plan(span.seed, "augment", start, span.steps, span.batch + replayed)
            plan = plan | {"augment": u}
        return plan

    def blocks(self, classes: NDArray[np.int64]) -> Iterator[Block]:
        """The plans of the coming steps, in blocks of one phase; classes [S, b] of their samples. A block must have been
        learned and counted before the next one is asked for."""
        while len(classes):
            span, phase = self.next_span(classes)
            other = np.flatnonzero(phase != phase[0])
            span = span.first(int(other[0]) if len(other) else span.steps)
            yield Block(span, int(phase[0]), self.plan(span))
            classes = classes[span.steps :]

    def next_span(self, classes: NDArray[np.int64]) -> tuple[Span, NDArray[np.int64]]:
        """Find the coming steps that can be planned at once, and the phase of each."""
        near = classes[: self.method.block(BLOCK)]
        span = Span(self.seed, self.steps, self.samples, len(near), classes.shape[1], near, self.counts.numpy().copy())
        return span, self.method.phase(span)

    def grow(self, classes: int) -> None:
        """Hold room for at least `classes` classes: the capacity doubles until it is enough."""
        capacity = self.net.capacity
        while capacity < classes:
            capacity *= 2
        if self.expected is not None and classes > self.expected:
            self.expected = None
        if capacity > self.net.capacity:
            more = capacity - self.net.capacity
            self.net.grow(capacity)
            self.memory.grow(capacity)
            self.seen, self.counts = (torch.cat([t, t.new_zeros(more)]) for t in (self.seen, self.counts))
            old = self.velocity
            self._set_parameters()
            self.velocity = tuple(_grown(v, p) for v, p in zip(old, self.parameters[: len(old)], strict=True))
            if self.average is not None:
                self.average = Average(self.moving(), self.device, self.average)

    def expect(self, classes: int) -> None:
        """Have room for so many classes; no other will come."""
        self.grow(classes)
        self.expected = classes

    @property
    def possible_classes(self) -> int:
        """Every class index is below it; tables with a row for each class (ASER) have so many."""
        return self.net.capacity if self.expected is None else self.expected

    def here(self) -> Span:
        """A span of no sample, at the step that comes next."""
        none = np.zeros((1, 0), np.int64)
        return Span(self.seed, self.steps, self.samples, 1, 0, none, self.counts.numpy().copy())

    def regroup(self, source: list[int], to: list[int]) -> None:
        """Make other classes of those there are: class i goes on with the class rows of class source[i]; samples of class c
        are samples of class to[c] from now on, or gone where that is −1. What else the network learned it keeps."""
        rows, classes = torch.tensor(source, dtype=torch.int64), torch.tensor(to, dtype=torch.int64)
        stay, used = classes >= 0, len(to)
        counts, seen = torch.zeros_like(self.counts), torch.zeros_like(self.counts)
        counts.index_add_(0, classes[stay], self.counts[:used][stay])
        seen.index_add_(0, classes[stay], self.seen[:used].cpu()[stay].long())
        self.counts, self.seen, self.samples = counts, (seen > 0).to(self.device), int(counts.sum())
        rows, classes = rows.to(self.device), classes.to(self.device)
        with torch.no_grad():
            self.net.regroup({name: getattr(self.net, name).data for name in self.net.class_rows}, rows, used)
            if self.average is not None:
                means = self.average.tensors()
                self.net.regroup({name: means[name] for name in self.net.class_rows}, rows, used)
        for name, v in zip(self.names, self.velocity, strict=False):
            if name in self.net.class_rows:
                v.copy_(torch.cat([v[rows], torch.zeros_like(v[len(rows) : used]), v[used:]]))
        self.memory.regroup(rows, classes)
        if self.method.replays:
            self.method.refill(self)

    def check(self) -> None:
        """Stop with a sentence if a loss was not finite."""
        step = int(self.bad_step)
        if step >= 0:
            raise Diverged(
                f"the loss {self.objective.name} of {self.method.name} was not finite at step {step}: training diverged "
                f"(learning rate {self.method.lr}; inputs far beyond −1 to 1 do this too) or an input was not finite."
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
        return Batch(self._input(self.memory.x.index_select(0, rows)), self.memory.y.index_select(0, rows), rows)

    def _input(self, stored: Tensor) -> Tensor:
        """What the memory holds → network input."""
        return stored if self.method.edits_memory else self.normalise(stored)

    def parameter_count(self) -> int:
        """Trained numbers; of the class rows, those of the classes seen."""
        rows: list[Tensor] = [getattr(self.net, name) for name, kind in self.net.class_rows.items() if kind.trained]
        unseen = self.net.capacity - int(self.seen.sum())
        return sum(p.numel() for p in self.parameters) - sum(p[0].numel() * unseen for p in rows)

    def memory_features(self) -> tuple[Tensor, Tensor]:
        """f of every memory row in use, as prediction sees it, and its class; [filled, d] and [filled]."""
        rows = (self.memory.y[: self.memory.size] != EMPTY).nonzero().flatten()
        with self.evaluating():
            parts = torch.split(rows, self.eval_batch_size)
            f = torch.cat([self.predict_output(self.replay(part).x).features for part in parts])
        return f, self.memory.y[rows]

    # --- prediction

    def predict_output(self, x: Tensor) -> Output:
        """What the network that predicts makes of network inputs: the averaged one, where there is one. To be called within
        `evaluating`. Training, and methods that look at the network in a step, never see the average."""
        out: Output = self.net(x) if self.average is None else functional_call(self.net, self.average.tensors(), (x,))
        return out

    def output(self, x: Tensor) -> Output:
        """What it makes of raw samples."""
        out: Output = self.predict_output(self.normalise(x))
        return out

    def scores(self, x: Tensor, classifiers: list[Classifier]) -> list[Tensor]:
        """Scores [n, capacity] of each classifier for raw samples x; the features are computed once for all."""
        if self.samples == 0:
            raise MnemonError("nothing was learned yet, so nothing can be predicted.")
        with self.evaluating():
            prepared = [classifier.prepare(self) for classifier in classifiers]
            outputs = [self.output(part) for part in torch.split(x, self.eval_batch_size)]
            return [torch.cat([scores(out) for out in outputs]) for scores in prepared]

    # --- state

    def state(self) -> dict[str, Tensor]:
        """All tensors that change, by name (views, not copies)."""
        found = {
            **{f"net.{name}": tensor for name, tensor in self.net.state_dict().items()},
            "memory.x": self.memory.x[: self.memory.size],
            "memory.y": self.memory.y[: self.memory.size],
            **{f"memory.{name}": column[: self.memory.size] for name, column in self.memory.extra.items()},
            "seen": self.seen,
            "counts": self.counts,
            "bad_step": self.bad_step,
        }
        found |= {f"velocity.{name}": v for name, v in zip(self.names, self.velocity, strict=False)}
        if self.average is not None:
            found |= {f"average.{name}": tensor for name, tensor in self.average.tensors().items()}
            found["age"] = self.average.age
        return found

    def snapshot(self) -> Snapshot:
        """Everything that changes, as it is now, for `rollback`; in memory only."""
        return Snapshot({name: tensor.clone() for name, tensor in self.state().items()}, self.steps, self.samples)

    def rollback(self, to: Snapshot) -> None:
        """Be as the learner was of which this is a snapshot: this one, or another of the same kind."""
        self.restore(to.state, steps=to.steps, samples=to.samples)

    def restore(self, state: dict[str, Tensor], *, steps: int, samples: int) -> None:
        """Go on from a saved state, bit for bit; a state of another shape is refused."""
        saved_capacity = len(state["seen"]) if "seen" in state else 0
        if saved_capacity > self.net.capacity:  # else as many classes are expected as before
            self.grow(saved_capacity)
        own = self.state()
        if own.keys() != state.keys() or any(
            own[k].shape != state[k].shape or own[k].dtype != state[k].dtype for k in own
        ):
            raise MnemonError("the saved state does not belong to this network, memory and loss.")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])
        self.steps, self.samples = steps, samples


def _grown(old: Tensor, like: Tensor) -> Tensor:
    """A tensor with zeros behind its rows, as many as `like` has more."""
    if old.shape == like.shape:  # a number has no rows
        return old
    return torch.cat([old, old.new_zeros(len(like) - len(old), *old.shape[1:])])
