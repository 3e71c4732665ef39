"""The eager loop mnemon is measured against: online ER and the paper's hybrid, as one writes them in plain PyTorch.

Everything a step needs is written out and nothing is tuned: nn.Module, torch.optim.SGD, a replay buffer of preallocated
tensors with the textbook reservoir loop, inputs normalised once up front, the number of classes known. Run as a program
it prints the accuracy of this loop beside mnemon's on the same streams:

    python benchmarks/eager.py --seeds 5
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from common import header, options, write
from mnemon.experiments.run import Run, Task, named_task
from mnemon.experiments.spec import Spec
from mnemon.learning.backbones import ReducedResNet18

ALPHA, BETA, LAMBDA, EPSILON = 2.0, 50.0, 0.5, 0.1


class Buffer:
    """Replay memory filled by reservoir sampling."""

    def __init__(self, size: int, shape: tuple[int, ...]) -> None:
        self.x = torch.zeros(size, *shape)
        self.y = torch.zeros(size, dtype=torch.long)
        self.size = size
        self.offered = 0

    def __len__(self) -> int:
        return min(self.offered, self.size)

    def sample(self, count: int) -> tuple[Tensor, Tensor]:
        rows = torch.randperm(len(self))[:count]
        return self.x[rows], self.y[rows]

    def add(self, x: Tensor, y: Tensor) -> None:
        for i in range(len(y)):
            slot = self.offered if self.offered < self.size else np.random.randint(self.offered + 1)  # noqa: NPY002
            if slot < self.size:
                self.x[slot] = x[i]
                self.y[slot] = y[i]
            self.offered += 1


def ms_loss(z: Tensor, y: Tensor, divisor: str) -> Tensor:
    """Multi-Similarity loss with hard mining, averaged over all anchors ("batch") or those with a mined pair ("active")."""
    sim = z @ z.T
    same = y[:, None] == y[None, :]
    pos = same & ~torch.eye(len(y), dtype=torch.bool)
    neg = ~same
    with torch.no_grad():
        hardest_neg = sim.masked_fill(~neg, -torch.inf).max(1, keepdim=True).values
        hardest_pos = sim.masked_fill(~pos, torch.inf).min(1, keepdim=True).values
        pos = pos & (sim < hardest_neg + EPSILON)
        neg = neg & (sim > hardest_pos - EPSILON)
    pull = torch.log1p((torch.exp(-ALPHA * (sim - LAMBDA)) * pos).sum(1)) / ALPHA
    push = torch.log1p((torch.exp(BETA * (sim - LAMBDA)) * neg).sum(1)) / BETA
    if divisor == "batch":
        return (pull + push).mean()
    return (pull + push).sum() / (pos.any(1) | neg.any(1)).sum().clamp(min=1)


class Eager:
    """One method ("er" or "hybrid") on samples of `shape`; `features` maps them to vectors of `dim` numbers."""

    def __init__(
        self,
        method: str,
        features: nn.Module,
        dim: int,
        *,
        shape: tuple[int, ...],
        classes: int,
        memory: int,
        lr: float,
        gamma: float = 0.0,
        divisor: str = "batch",
    ) -> None:
        self.method, self.features, self.gamma, self.divisor = method, features, gamma, divisor
        self.seen = torch.zeros(classes, dtype=torch.bool)
        self.buffer = Buffer(memory, shape)
        self.head = nn.Linear(dim, classes)
        self.proxies = nn.Parameter(F.normalize(torch.randn(classes, dim), dim=1))
        class_rows = self.head.parameters() if method == "er" else [self.proxies]
        self.optimizer = torch.optim.SGD([*features.parameters(), *class_rows], lr=lr)

    def step(self, x: Tensor, y: Tensor) -> None:
        """Learn one batch of the stream together with ten replayed samples."""
        self.seen[y] = True
        new_x, new_y = x, y
        if len(self.buffer) > 0:
            replay_x, replay_y = self.buffer.sample(10)
            x, y = torch.cat([x, replay_x]), torch.cat([y, replay_y])
        loss = self.cross_entropy(x, y) if self.method == "er" else self.hybrid(x, y)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        if self.method == "hybrid":
            with torch.no_grad():
                self.proxies.copy_(F.normalize(self.proxies, dim=1))
        self.buffer.add(new_x, new_y)

    def cross_entropy(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self.head(self.features(x)).masked_fill(~self.seen, -torch.inf)
        return F.cross_entropy(logits, y)

    def hybrid(self, x: Tensor, y: Tensor) -> Tensor:
        z = F.normalize(self.features(x), dim=1)
        logits = (2 * z @ self.proxies.T).masked_fill(~self.seen, -torch.inf)  # −‖z − p‖² + 2 for unit vectors
        return ms_loss(z, y, self.divisor) + self.gamma * F.cross_entropy(logits, y)

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        self.features.eval()
        f = self.features(x)
        if self.method == "er":
            scores = self.head(f).masked_fill(~self.seen, -torch.inf)
        else:
            count = len(self.buffer)
            memory = F.normalize(self.features(self.buffer.x[:count]), dim=1)
            means = torch.full((len(self.seen), f.shape[1]), torch.inf)
            for c in range(len(self.seen)):
                mine = memory[self.buffer.y[:count] == c]
                if len(mine):
                    means[c] = mine.mean(0)
            scores = -torch.cdist(F.normalize(f, dim=1), means)
        self.features.train()
        predicted: Tensor = scores.argmax(1)
        return predicted


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())


def eager_for(run: Run, x: Tensor) -> Eager:
    """The eager loop for the same work as `run`: same hyper-parameters, inputs x as `inputs` gives them."""
    values = run.choice.options()
    shape = tuple(x.shape[1:])
    image = len(shape) == 3
    return Eager(
        run.choice.method.name,
        ReducedResNet18(*shape) if image else mlp(),
        160 if image else 400,
        shape=shape,
        classes=len(run.table),
        memory=values["memory_size"],
        lr=values["lr"],
        gamma=values.get("gamma", 0.0),
        divisor=values.get("divisor", "batch"),
    )


def describe(values: dict[str, Any]) -> str:
    """The hyper-parameters both sides use, for the output: recipes change, and a number belongs to its recipe."""
    return ", ".join(f"{name} {values[name]}" for name in ("lr", "memory_size", "gamma", "divisor") if name in values)


def inputs(task: Task, x: Tensor) -> Tensor:
    """Pixels normalised once, flat for the MLP."""
    x = (x.float() - task.inputs.mean) / task.inputs.std
    return x.flatten(1) if task.backbone == "mlp" else x


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002


def average_accuracy(method: str, seed: int) -> tuple[float, float]:
    """Average accuracy on Split MNIST after the last task: of the eager loop, of mnemon."""
    cpu = torch.device("cpu")
    task = named_task("split-mnist", seed, epochs=0, device=cpu)
    ours = Run(Spec(method, "split-mnist", seed).choice(), task, seed=seed, device=cpu)
    while not ours.finished:
        ours.advance()
    (last,) = ours.rows[-1].values()

    seed_all(seed)
    x, y = inputs(task, task.x), torch.from_numpy(task.y)
    eager = eager_for(ours, x)
    for rows in torch.from_numpy(ours.batches):
        eager.step(x[rows], y[rows])
    right = (eager.predict(inputs(task, task.x_test)) == torch.from_numpy(task.y_test)).double()
    tasks = [right[torch.from_numpy(np.isin(task.y_test, labels))].mean() for labels in task.tested]
    return 100 * float(torch.stack(tasks).mean()), float(np.mean(last["accuracy"]))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="streams 0 … N−1 (default 5)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    print(f"Split MNIST, average accuracy over {args.seeds} streams (standard deviation)")
    record: dict[str, Any] = {}
    for method in ("er", "hybrid"):
        pairs = np.array([average_accuracy(method, args.seed + i) for i in range(args.seeds)])
        values = Spec(method, "split-mnist").choice().options()
        (eager, ours), (eager_sd, ours_sd) = pairs.mean(0), pairs.std(0, ddof=1)
        print(f"{method:8} eager {eager:.2f} ({eager_sd:.2f})   mnemon {ours:.2f} ({ours_sd:.2f})   {describe(values)}")
        record[method] = {"options": values, "eager": pairs[:, 0].tolist(), "mnemon": pairs[:, 1].tolist()}
    write(args.out, {"benchmark": "eager", "average_accuracy": record})


if __name__ == "__main__":
    main()
