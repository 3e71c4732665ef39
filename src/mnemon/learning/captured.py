"""A learner's step captured once in a CUDA graph and replayed: the host says "go" instead of launching 400 kernels.

Each learner has a stream of its own, so that the graphs of many learners run side by side. Nothing here knows a method:
a step has fixed shapes and touches no host value (learning/method.py), and `Method.phase` says when its shapes change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.learning.learner import BLOCK, Block, Learner

FEW = 4  # steps put on a stream before the next learner has its turn
WARM_UP = 3  # steps of a phase made without a graph first: libraries choose their kernels then, and caches fill


class Graph(NamedTuple):
    """A captured step and what it reads: the block's batches and draws, and the place in the block."""

    graph: torch.cuda.CUDAGraph
    rows: Tensor  # [BLOCK, b]
    draws: dict[str, Tensor]  # [BLOCK, …] each
    place: Tensor  # [1]
    losses: Tensor  # [BLOCK], written


class Captured:
    """Learns as `Learner.learn` does, without waiting: `begin`, then `push` until it says no more, and `wait` for the end."""

    def __init__(self, learner: Learner, x: Tensor, y: Tensor) -> None:
        self.learner, self.x, self.y = learner, x, y
        self.classes = y.cpu().numpy()
        self.stream = torch.cuda.Stream(learner.device)  # type: ignore[no-untyped-call]
        self.stream.wait_stream(torch.cuda.current_stream(learner.device))
        self.graphs: dict[tuple[int, int], Graph] = {}  # by phase and batch size
        self.warm: dict[tuple[int, int], int] = {}  # steps made without a graph
        self.capacity = learner.net.capacity
        self.coming: Iterator[None] = iter(())

    def begin(self, rows: NDArray[np.int64]) -> None:
        """The batches rows [S, b] are next."""
        if self.learner.net.capacity != self.capacity:  # other tensors than those that were captured
            self.graphs.clear()
            self.capacity = self.learner.net.capacity
        self.learner.net.train()
        self.coming = self._learn(rows)

    def push(self) -> bool:
        """Put some more steps on the stream; False when there are none left.

        A few at a time: the device takes in only so many launches ahead, and those of one learner would keep the
        others waiting.
        """
        with torch.cuda.stream(self.stream):
            return next(self.coming, self) is None

    def busy(self) -> bool:
        """Whether the device still works on what was put on the stream."""
        return not self.stream.query()

    def aside(self) -> contextlib.AbstractContextManager[object]:
        """Within, other work goes to the learner's stream, behind its steps."""
        return torch.cuda.stream(self.stream)

    def wait(self) -> None:
        """Until all steps are made."""
        while self.push():
            pass
        self.stream.synchronize()

    def _learn(self, rows: NDArray[np.int64]) -> Iterator[None]:
        for block in self.learner.blocks(self.classes[rows]):
            yield from self._block(block, rows[: block.span.steps])
            rows = rows[block.span.steps :]

    def _block(self, block: Block, rows: NDArray[np.int64]) -> Iterator[None]:
        kind, steps = (block.phase, block.span.batch), len(rows)
        alone = min(max(0, WARM_UP - self.warm.get(kind, 0)), steps) if kind not in self.graphs else 0
        self.warm[kind] = self.warm.get(kind, 0) + alone
        index = torch.from_numpy(rows).to(self.learner.device)
        draws = {key: torch.from_numpy(values).to(self.learner.device) for key, values in block.plan.items()}
        losses = [self._step(index[s], {key: values[s] for key, values in draws.items()}) for s in range(alone)]
        yield
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
                if s % FEW == FEW - 1:
                    yield
            for s, loss in enumerate(losses):
                graph.losses[s].copy_(loss)
        self.learner.steps += steps
        self.learner.count(block.span.classes, graph.losses[:steps] if alone < steps else torch.stack(losses))

    def _step(self, rows: Tensor, draws: dict[str, Tensor]) -> Tensor:
        return self.learner.step(self.x.index_select(0, rows), self.y.index_select(0, rows), draws)

    def _capture(self, index: Tensor, draws: dict[str, Tensor]) -> Graph:
        def room(like: Tensor) -> Tensor:
            return like.new_zeros((BLOCK, *like.shape[1:]))

        made = Graph(
            torch.cuda.CUDAGraph(),
            room(index),
            {key: room(values) for key, values in draws.items()},
            index.new_zeros(1),
            torch.zeros(BLOCK, dtype=self.learner.dtype, device=index.device),
        )
        # Graphs that share cuBLAS's workspace would corrupt each other when replayed side by side.
        torch.cuda.synchronize(self.learner.device)
        torch._C._cuda_clearCublasWorkspaces()
        with torch.cuda.graph(made.graph, stream=self.stream):
            loss = self._step(
                made.rows.index_select(0, made.place)[0],
                {key: values.index_select(0, made.place)[0] for key, values in made.draws.items()},
            )
            made.losses.index_copy_(0, made.place, loss.reshape(1))
            made.place.add_(1)
        return made
