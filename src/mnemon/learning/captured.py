"""A step captured once in a CUDA graph and replayed: the host says "go" instead of launching hundreds of kernels.

The step is that of one learner, or of a stack of learners at once (stacked/stack.py). Each graph has a stream of its own, so
that several run side by side. Nothing here knows a method: a step has fixed shapes and touches no host value
(learning/method.py), and `Method.phase` says when its shapes change. On a CPU the same steps are made one by one.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.errors import MnemonError
from mnemon.learning import plugins
from mnemon.learning.learner import BLOCK, Learner
from mnemon.learning.method import Span

if TYPE_CHECKING:
    from mnemon.learning.stacked.stack import Stack

FEW = 4  # steps of a learner put on a stream before another stream has its turn
MANY = 32  # of a stack of learners: there are not many stacks, and the host has other work to do
WARM_UP = 3  # steps of a phase made without a graph first: libraries choose their kernels then, and caches fill


class Graph(NamedTuple):
    """A captured step and what it reads: the block's batches and draws, and the place in the block."""

    graph: torch.cuda.CUDAGraph
    rows: Tensor  # [steps, R, b]
    draws: dict[str, Tensor]  # [steps, R, …] each
    place: Tensor  # [1]
    losses: Tensor  # [steps, R], written


class GraphExecutor:
    """Advances R learners together. Each has a `Member`; once all have submitted their next batches, these are learned."""

    def __init__(self, learners: Sequence[Learner], x: Tensor, y: Sequence[Tensor]) -> None:
        self.learners, self.x, self.y = list(learners), x, torch.stack(list(y))
        self.classes = self.y.cpu().numpy()  # [R, samples]
        self.stack = _stack(self.learners) if len(learners) > 1 else None
        self.device = self.x.device
        self.stream = None
        if self.device.type == "cuda":
            self.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self.graphs: dict[tuple[int, int], Graph] = {}  # by phase and batch size
        self.warm: dict[tuple[int, int], int] = {}  # steps made without a graph
        self.capacity = self.learners[0].net.capacity
        self.members = [Member(self) for _ in learners]
        self.present = set(self.members)
        self.submitted: dict[Member, NDArray[np.int64]] = {}  # the next batches, until all have submitted theirs
        self.pending: Iterator[None] = iter(())
        self.began = time.monotonic()  # the last steps, for all of them

    def start_if_all_present(self) -> None:
        if not self.submitted or self.submitted.keys() != self.present:
            return
        if self.learners[0].net.capacity != self.capacity:  # other tensors than those that were captured
            if self.stack is not None:
                raise ValueError("learners of a stack cannot grow: their tensors are rows of the stack's.")
            self.graphs.clear()
            self.capacity = self.learners[0].net.capacity
        for learner in self.learners:
            learner.net.train()
        self.began = time.monotonic()
        unread = next(iter(self.submitted.values()))  # for the rows of members that have left
        self.pending = self._learn(np.stack([self.submitted.get(member, unread) for member in self.members]))
        self.submitted.clear()

    def release(self) -> None:
        """Drop the tensors, when the last member has left; the garbage collector would find the cycle of references
        much later."""
        self.pending, self.stack = iter(()), None
        self.graphs.clear()
        self.learners.clear()
        self.members.clear()

    def push(self) -> bool:
        """Put some more steps on the stream; False when there are none left.

        A few at a time: the device takes in only so many launches ahead, and those of one stream would keep the
        others waiting.
        """
        with self.aside():
            return next(self.pending, self) is None

    def aside(self) -> contextlib.AbstractContextManager[object]:
        """Within, work goes to this stream."""
        return contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def _learn(self, rows: NDArray[np.int64]) -> Iterator[None]:
        """The batches rows [R, S, b], as far as can be planned at once again and again."""
        while rows.shape[1]:
            ahead = [
                learner.next_span(y[mine]) for learner, y, mine in zip(self.learners, self.classes, rows, strict=True)
            ]
            phase = int(ahead[0][1][0])
            same = np.all([phases == phase for _, phases in ahead], axis=0)
            steps = len(same) if same.all() else int(same.argmin())
            if steps:
                yield from self._block(phase, [span.first(steps) for span, _ in ahead], rows[:, :steps])
            else:  # a step of different shapes: each its own
                steps = 1
                for learner, y, mine in zip(self.learners, self.y, rows, strict=True):
                    learner.learn(self.x, y, mine[:1])
                yield
            rows = rows[:, steps:]

    def _block(self, phase: int, spans: list[Span], rows: NDArray[np.int64]) -> Iterator[None]:
        kind, steps = (phase, spans[0].batch), spans[0].steps
        plans = [learner.plan(span) for learner, span in zip(self.learners, spans, strict=True)]
        index = self._up(rows.swapaxes(0, 1))  # [steps, R, b]
        draws = {key: self._up(np.stack([plan[key] for plan in plans], 1)) for key in plans[0]}
        some = FEW if self.stack is None else MANY
        alone = steps
        if self.stream is not None:
            alone = min(max(0, WARM_UP - self.warm.get(kind, 0)), steps) if kind not in self.graphs else 0
            self.warm[kind] = self.warm.get(kind, 0) + alone
        made: list[Tensor] = []
        for s in range(alone):
            made.append(self._step(index[s], {key: values[s] for key, values in draws.items()}))
            if s % some == some - 1:
                yield
        yield
        losses = torch.stack(made) if made else None
        if alone < steps:
            if kind not in self.graphs:
                self.graphs[kind] = self._capture(index, draws)
            graph = self.graphs[kind]
            graph.rows[:steps].copy_(index)
            for key, values in draws.items():
                graph.draws[key][:steps].copy_(values)
            graph.place.fill_(alone)
            for s in range(alone, steps):
                graph.graph.replay()
                if s % some == some - 1:
                    yield
            if losses is not None:
                graph.losses[:alone].copy_(losses)
            losses = graph.losses[:steps]
        assert losses is not None
        for learner, span, mine in zip(self.learners, spans, losses.unbind(1), strict=True):
            learner.steps += steps
            learner.record_steps(span.classes, mine)

    def _up(self, values: NDArray[Any]) -> Tensor:
        """To the device, behind what is on the stream already; the host does not wait for it."""
        tensor = torch.from_numpy(np.ascontiguousarray(values))
        return tensor if self.stream is None else tensor.pin_memory().to(self.device, non_blocking=True)

    def _step(self, rows: Tensor, draws: dict[str, Tensor]) -> Tensor:
        """rows [R, b], draws [R, …] → the losses [R]."""
        if self.stack is None:
            x, y = self.x.index_select(0, rows[0]), self.y[0].index_select(0, rows[0])
            return self.learners[0].step(x, y, {key: values[0] for key, values in draws.items()}).reshape(1)
        x = self.x.index_select(0, rows.flatten()).reshape(*rows.shape, *self.x.shape[1:])
        with _explained(self.learners[0], "stacked with other runs (torch.vmap)", "stackable"):
            return self.stack.step(x, self.y.gather(1, rows), draws)

    def _capture(self, index: Tensor, draws: dict[str, Tensor]) -> Graph:
        steps = self.learners[0].method.block(BLOCK)  # the most that are planned at once

        def buffer(like: Tensor) -> Tensor:
            return like.new_zeros((steps, *like.shape[1:]))

        made = Graph(
            torch.cuda.CUDAGraph(),
            buffer(index),
            {key: buffer(values) for key, values in draws.items()},
            index.new_zeros(1),
            torch.zeros(steps, len(self.learners), dtype=self.learners[0].dtype, device=self.device),
        )
        # Graphs that share cuBLAS's workspace would corrupt each other when replayed side by side.
        torch.cuda.synchronize(self.device)
        torch._C._cuda_clearCublasWorkspaces()
        with (
            _explained(self.learners[0], "captured in a CUDA graph", "capturable"),
            _no_garbage_collected(),
            torch.cuda.graph(made.graph, stream=self.stream),
        ):
            losses = self._step(
                made.rows.index_select(0, made.place)[0],
                {key: values.index_select(0, made.place)[0] for key, values in made.draws.items()},
            )
            made.losses.index_copy_(0, made.place, losses[None])
            made.place.add_(1)
        return made


@contextlib.contextmanager
def _explained(learner: Learner, how: str, attribute: str) -> Iterator[None]:
    """Have an error in the step of a method or loss from outside the package as a sentence that says what to do."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        outside = [part for part in (learner.method, learner.objective) if not plugins.is_built_in(type(part))]
        if not outside:
            raise
        raise MnemonError(
            f"the step of {outside[0].name} cannot be {how}: {str(error).strip().splitlines()[0]} Change it (fixed shapes, no "
            f".item(), no branch on a tensor), or set {attribute} = False in {type(outside[0]).__name__}; that is slower."
        ) from error


@contextlib.contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Within, Python looks for no garbage: it may find a graph of an earlier run, and to free one breaks a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Member:
    """One learner of a GraphExecutor. It learns as `Learner.learn` does, but asynchronously: `begin`, `push` until that is
    False, `wait`."""

    def __init__(self, executor: GraphExecutor) -> None:
        self.executor = executor

    def begin(self, rows: NDArray[np.int64]) -> None:
        """Submit the batches rows [S, b]; as many as the other members do."""
        self.executor.submitted[self] = rows
        self.executor.start_if_all_present()

    def push(self) -> bool:
        """Put some more steps on the stream; False when all are there."""
        return self in self.executor.submitted or self.executor.push()

    def busy(self) -> bool:
        """Whether the device still works on what was put on the stream."""
        return self.executor.stream is not None and not self.executor.stream.query()

    def aside(self) -> contextlib.AbstractContextManager[object]:
        """Within, other work goes to the learner's stream, behind its steps."""
        return self.executor.aside()

    def withdraw(self) -> bool:
        """Take `begin` back, if the others have not submitted theirs and nothing was learned yet. True if so."""
        return self.executor.submitted.pop(self, None) is not None

    def wait(self) -> None:
        """Until all steps are made."""
        assert self not in self.executor.submitted, "the others have not begun"
        while self.executor.push():
            pass
        if self.executor.stream is not None:
            self.executor.stream.synchronize()

    def leave(self) -> None:
        """Let the others advance without this one. The last one to leave frees the device's memory."""
        self.withdraw()
        self.executor.present.discard(self)
        if self.executor.present:
            self.executor.start_if_all_present()
        else:
            self.executor.release()


def _stack(learners: list[Learner]) -> Stack:
    from mnemon.learning.stacked.stack import Stack  # needs the inside of torch

    return Stack(learners)


def members(learners: Sequence[Learner], x: Tensor, y: Sequence[Tensor]) -> list[Member]:
    """The members of one executor, one for each learner."""
    return GraphExecutor(learners, x, y).members
