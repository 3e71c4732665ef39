"""The trained network: a backbone, and on top of its features what the loss needs: layers, and rows for each class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from mnemon import rng

START_CAPACITY = 16  # class rows held ready; doubled when they run out, so shapes change only log2(classes) times


class Output(NamedTuple):
    """What one forward pass gives the loss and the classifier."""

    features: Tensor  # [n, d]
    embedding: Tensor | None = None  # [n, e], where the loss has layers on top of the features
    logits: Tensor | None = None  # [n, capacity], where there is a softmax head
    proxies: Tensor | None = None  # [capacity, d], trained
    prototypes: Tensor | None = None  # [capacity, e], kept, not trained
    prior: Tensor | None = None  # [capacity], kept, not trained: how often each class came lately

    def part(self, start: int, stop: int) -> Output:
        """The output for samples start … stop−1."""
        return self._replace(
            features=self.features[start:stop],
            embedding=None if self.embedding is None else self.embedding[start:stop],
            logits=None if self.logits is None else self.logits[start:stop],
        )

    def detach(self) -> Output:
        return Output(self.features.detach(), *(t if t is None else t.detach() for t in self[1:]))


def head_weight(seed: int, start: int, stop: int, d: int) -> Tensor:
    """Rows start … stop−1 of a linear layer as PyTorch initialises it: uniform in ±1/√d."""
    return _uniform_rows(seed, start, stop, d)[:, :d]


def head_bias(seed: int, start: int, stop: int, d: int) -> Tensor:
    return _uniform_rows(seed, start, stop, d)[:, d]


def _uniform_rows(seed: int, start: int, stop: int, d: int) -> Tensor:
    u = rng.uniform(seed, "head", start * (d + 1), (stop - start) * (d + 1)).reshape(-1, d + 1)
    return torch.from_numpy((2 * u - 1) / math.sqrt(d))


def proxy_rows(seed: int, start: int, stop: int, d: int) -> Tensor:
    """p_c = g / ‖g‖ with g ~ N(0, I)."""
    g = rng.normal(seed, "proxies", start * d, (stop - start) * d).reshape(-1, d)
    return F.normalize(torch.from_numpy(g), dim=1)


def prototype_rows(seed: int, start: int, stop: int, e: int) -> Tensor:
    """p_c = u / ‖u‖ with u ~ U(0, 1)^e, as CoPE starts them."""
    u = rng.uniform(seed, "prototypes", start * e, (stop - start) * e).reshape(-1, e)
    return F.normalize(torch.from_numpy(u), dim=1)


def no_prior(seed: int, start: int, stop: int, d: int) -> Tensor:
    return torch.zeros(stop - start)


class ClassRows(NamedTuple):
    """A tensor of the network with a row for each class."""

    rows: Callable[[int, int, int, int], Tensor]  # (seed, start, stop, width) → rows start … stop−1
    trained: bool  # a parameter, or a buffer that is saved but has no gradient
    embedded: bool = False  # as wide as the embedding, not the features


# What a loss may ask for, by name → the tensors that are it.
CLASS_ROWS: dict[str, dict[str, ClassRows]] = {
    "head": {"head_weight": ClassRows(head_weight, True), "head_bias": ClassRows(head_bias, True)},
    "proxies": {"proxies": ClassRows(proxy_rows, True)},
    "prototypes": {"prototypes": ClassRows(prototype_rows, False, embedded=True)},
    "prior": {"prior": ClassRows(no_prior, False)},
}


class Shortened(torch.autograd.Function):
    """All weights in bfloat16 at once, and their gradients back at once: autocast would take a kernel for each of them."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        short = [torch.empty_like(w, dtype=torch.bfloat16) for w in weights]
        torch._foreach_copy_(short, weights)
        ctx.dtypes = [w.dtype for w in weights]
        return tuple(short)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        whole = [torch.empty_like(g, dtype=dtype) for g, dtype in zip(gradients, ctx.dtypes, strict=True)]
        torch._foreach_copy_(whole, gradients)
        return tuple(whole)


class Network(nn.Module):
    """Row c of each class tensor depends on (seed, c) alone: no class count is known up front, none leaks in."""

    head_weight: nn.Parameter | None
    head_bias: nn.Parameter | None
    proxies: nn.Parameter | None
    prototypes: Tensor | None
    prior: Tensor | None

    def __init__(
        self,
        backbone: nn.Module,
        dim: int,
        rows: Iterable[str] = (),
        *,
        layers: nn.Module | None = None,
        layers_dim: int = 0,
        seed: int = 0,
        bf16: bool = False,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.layers = layers
        self.dim = dim
        self.seed = seed
        self.bf16 = bf16  # the backbone computes in bfloat16; features, losses and parameters stay as they are
        self.capacity = 0
        self.class_rows = {name: kind for group in rows for name, kind in CLASS_ROWS[group].items()}
        self._width = {name: layers_dim if kind.embedded else dim for name, kind in self.class_rows.items()}
        for name, kind in (item for group in CLASS_ROWS.values() for item in group.items()):
            empty = torch.empty(0, *kind.rows(seed, 0, 0, self._width[name]).shape[1:]) if name in self._width else None
            if kind.trained:
                self.register_parameter(name, None if empty is None else nn.Parameter(empty))
            else:
                self.register_buffer(name, empty)
        self.grow(START_CAPACITY)

    def forward(self, x: Tensor, apart: int = 0) -> Output:
        """With `apart` the first so many samples pass the backbone on their own, before the others: in training
        BatchNorm then takes the statistics of each part."""
        f = torch.cat([self._features(x[:apart]), self._features(x[apart:])]) if apart else self._features(x)
        embedding = None if self.layers is None else self.layers(f)
        logits = None if self.head_weight is None else F.linear(f, self.head_weight, self.head_bias)
        return Output(f, embedding, logits, self.proxies, self.prototypes, self.prior)

    def _features(self, x: Tensor) -> Tensor:
        f: Tensor
        if not self.bf16:
            f = self.backbone(x)
            return f
        weights = {name: p for name, p in self.backbone.named_parameters() if p.ndim > 1}
        short = dict(zip(weights, Shortened.apply(*weights.values()), strict=True))  # type: ignore[no-untyped-call]
        with torch.autocast(x.device.type, torch.bfloat16):
            f = functional_call(self.backbone, short, (x,))
        return f.to(x.dtype)

    def grow(self, capacity: int) -> None:
        """Append untouched class rows up to `capacity`; the rows in use stay as they are."""
        start, self.capacity = self.capacity, capacity
        for name, kind in self.class_rows.items():
            old = getattr(self, name)
            rows = torch.cat([old.detach(), kind.rows(self.seed, start, capacity, self._width[name]).to(old)])
            setattr(self, name, nn.Parameter(rows) if kind.trained else rows)

    def regroup(self, tables: Mapping[str, Tensor], source: Tensor, used: int) -> None:
        """In each of these tables of class rows, given by name, row i becomes row source[i]; the other ones of the first `used`
        rows become as untouched ones are."""
        for name, table in tables.items():
            fresh = self.class_rows[name].rows(self.seed, len(source), used, self._width[name]).to(table)
            table.copy_(torch.cat([table[source], fresh, table[used:]]))
