"""The loop mnemon is measured against: online replay as one writes it in plain PyTorch.

Everything a step needs is written out and nothing is tuned: nn.Module, torch.optim.SGD, a replay buffer of preallocated
tensors with the textbook reservoir loop, inputs normalised once up front, the number of classes known.
`benchmarks/eager.py` shows that it learns what mnemon learns.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

ALPHA, BETA, LAMBDA, EPSILON = 2.0, 50.0, 0.5, 0.1


class Buffer:
    """Replay memory filled by reservoir sampling."""

    def __init__(self, size: int, shape: tuple[int, ...], device: torch.device) -> None:
        self.x = torch.zeros(size, *shape, device=device)
        self.y = torch.zeros(size, dtype=torch.long, device=device)
        self.size = size
        self.offered = 0

    def __len__(self) -> int:
        return min(self.offered, self.size)

    def choose(self, count: int) -> Tensor:
        return torch.randperm(len(self), device=self.y.device)[:count]

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
    pos = same & ~torch.eye(len(y), dtype=torch.bool, device=y.device)
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


class Er:
    """Experience replay with cross-entropy. `features` maps samples of `shape` to vectors of `dim` numbers."""

    def __init__(
        self,
        features: nn.Module,
        dim: int,
        *,
        shape: tuple[int, ...],
        classes: int,
        device: torch.device,
        lr: float,
        memory_size: int = 0,
        replay_size: int = 0,
    ) -> None:
        self.features = features.to(device)
        self.seen = torch.zeros(classes, dtype=torch.bool, device=device)
        self.buffer = Buffer(memory_size, shape, device)
        self.replay_size, self.lr = replay_size, lr
        self.optimizer = torch.optim.SGD([*features.parameters(), *self.class_rows(dim, classes, device)], lr=lr)

    def class_rows(self, dim: int, classes: int, device: torch.device) -> list[nn.Parameter]:
        self.head = nn.Linear(dim, classes).to(device)
        return list(self.head.parameters())

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self.head(self.features(x)).masked_fill(~self.seen, -torch.inf)
        return F.cross_entropy(logits, y)

    def step(self, x: Tensor, y: Tensor) -> None:
        """Learn one batch of the stream together with replayed samples."""
        self.seen[y] = True
        new_x, new_y = x, y
        if len(self.buffer) > 0:
            rows = self.retrieve(x, y)
            x, y = torch.cat([x, self.buffer.x[rows]]), torch.cat([y, self.buffer.y[rows]])
        self.descend(self.loss(x, y))
        self.buffer.add(new_x, new_y)

    def retrieve(self, x: Tensor, y: Tensor) -> Tensor:
        return self.buffer.choose(self.replay_size)

    def descend(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        self.features.eval()
        scores = self.scores(self.features(x))
        self.features.train()
        predicted: Tensor = scores.argmax(1)
        return predicted

    def scores(self, f: Tensor) -> Tensor:
        logits: Tensor = self.head(f).masked_fill(~self.seen, -torch.inf)
        return logits


class FineTune(Er):
    """The new samples alone."""

    def step(self, x: Tensor, y: Tensor) -> None:
        self.seen[y] = True
        self.descend(self.loss(x, y))


class Hybrid(Er):
    """Multi-Similarity + γ Proxy-NCA; the nearest class mean predicts."""

    def __init__(self, *more: object, gamma: float, divisor: str = "batch", **options: object) -> None:
        self.gamma, self.divisor = gamma, divisor
        super().__init__(*more, **options)  # type: ignore[arg-type]

    def class_rows(self, dim: int, classes: int, device: torch.device) -> list[nn.Parameter]:
        self.proxies = nn.Parameter(F.normalize(torch.randn(classes, dim, device=device), dim=1))
        return [self.proxies]

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        z = F.normalize(self.features(x), dim=1)
        logits = (2 * z @ self.proxies.T).masked_fill(~self.seen, -torch.inf)  # −‖z − p‖² + 2 for unit vectors
        return ms_loss(z, y, self.divisor) + self.gamma * F.cross_entropy(logits, y)

    def descend(self, loss: Tensor) -> None:
        super().descend(loss)
        with torch.no_grad():
            self.proxies.copy_(F.normalize(self.proxies, dim=1))

    def scores(self, f: Tensor) -> Tensor:
        count = len(self.buffer)
        memory = F.normalize(self.features(self.buffer.x[:count]), dim=1)
        means = torch.full((len(self.seen), f.shape[1]), torch.inf, device=f.device)
        for c in range(len(self.seen)):
            mine = memory[self.buffer.y[:count] == c]
            if len(mine):
                means[c] = mine.mean(0)
        return -torch.cdist(F.normalize(f, dim=1), means)


class AGem(Er):
    """The gradient of the new samples, without its part against the gradient of the replayed ones."""

    def __init__(self, *more: object, reference_size: int = 0, **options: object) -> None:
        super().__init__(*more, **options)  # type: ignore[arg-type]
        self.replay_size = reference_size or self.replay_size

    def step(self, x: Tensor, y: Tensor) -> None:
        self.seen[y] = True
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        gradient = torch.autograd.grad(self.loss(x, y), parameters)
        if len(self.buffer) > 0:
            rows = self.retrieve(x, y)
            reference = torch.autograd.grad(self.loss(self.buffer.x[rows], self.buffer.y[rows]), parameters)
            g, r = (torch.cat([part.flatten() for part in whole]) for whole in (gradient, reference))
            if g @ r < 0:
                g = g - (g @ r) / (r @ r) * r
            parts = torch.split(g, [p.numel() for p in parameters])
            gradient = tuple(part.view_as(p) for part, p in zip(parts, parameters, strict=True))
        for p, part in zip(parameters, gradient, strict=True):
            p.grad = part
        self.optimizer.step()
        self.buffer.add(x, y)


class Mir(Er):
    """Replays the samples whose loss one step on the new ones would raise most."""

    def __init__(self, *more: object, candidates: int, **options: object) -> None:
        self.candidates = candidates
        super().__init__(*more, **options)  # type: ignore[arg-type]
        self.model = nn.Sequential(self.features, self.head)

    def retrieve(self, x: Tensor, y: Tensor) -> Tensor:
        rows = self.buffer.choose(self.candidates)
        names, parameters = zip(*self.model.named_parameters(), strict=True)
        running = {name: value.clone() for name, value in self.model.named_buffers()}
        gradient = torch.autograd.grad(self.loss(x, y), parameters)
        ahead = {name: p - self.lr * g for name, p, g in zip(names, parameters, gradient, strict=True)}
        with torch.no_grad():
            rise = self.losses(rows, ahead) - self.losses(rows, {})
            self.model.load_state_dict(running, strict=False)  # looking must not move BatchNorm's statistics
        return rows[rise.topk(min(self.replay_size, len(rows))).indices]

    def losses(self, rows: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """Of each of these samples of the memory, at other parameters."""
        logits = functional_call(self.model, parameters, (self.buffer.x[rows],)).masked_fill(~self.seen, -torch.inf)
        return F.cross_entropy(logits, self.buffer.y[rows], reduction="none")


LOOPS: dict[str, type[Er]] = {"fine-tune": FineTune, "er": Er, "hybrid": Hybrid, "a-gem": AGem, "mir": Mir}


def mlp(inputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())
