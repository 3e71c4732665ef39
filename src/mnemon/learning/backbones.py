"""Feature extractors f: the paper's MLP and reduced ResNet-18, none, or any nn.Module that returns one vector a sample."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.errors import MnemonError, unknown

Backbone = str | nn.Module | Callable[[], nn.Module]


class MLP(nn.Module):
    """Two hidden layers of 400 ReLU units; the features are the second one. 474,400 parameters for 784 inputs."""

    def __init__(self, inputs: int, width: int = 400) -> None:
        super().__init__()
        self.hidden1 = nn.Linear(inputs, width)
        self.hidden2 = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.hidden2(F.relu(self.hidden1(x.flatten(1)))))


class BatchNorm(nn.BatchNorm2d):
    """Without the count of batches, which nothing here reads and which costs a kernel in every layer."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.num_batches_tracked = None


class BasicBlock(nn.Module):
    """conv-BN-ReLU-conv-BN plus the shortcut, then ReLU."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = BatchNorm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = BatchNorm(width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), BatchNorm(width))

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class ReducedResNet18(nn.Module):
    """ResNet-18 with 20 instead of 64 channels, a 3×3 stem and no max-pooling: d = 160 (32×32) or 640 (84×84).

    The features are averages of ReLU outputs, hence not negative, and all similarities lie in [0, 1].
    """

    def __init__(self, channels: int, height: int, width: int, nf: int = 20) -> None:
        super().__init__()
        if min(height, width) < 25:
            raise MnemonError(
                f"the reduced ResNet-18 needs images of at least 25×25 pixels, not {height}×{width}; use mlp."
            )
        self.stem = nn.Sequential(nn.Conv2d(channels, nf, 3, 1, 1, bias=False), BatchNorm(nf), nn.ReLU())
        blocks, inputs = [], nf
        for stage, stride in enumerate((1, 2, 2, 2)):
            out = nf * 2**stage
            blocks += [BasicBlock(inputs, out, stride), BasicBlock(out, out, 1)]
            inputs = out
        self.blocks = nn.Sequential(*blocks)
        # Average pooling with kernel 4 on the map of ⌈side/8⌉, as in the paper; up to 4 × 4 cells for large images.
        cells = [min(math.ceil(side / 8) // 4, 4) for side in (height, width)]
        exact = all(math.ceil(side / 8) // 4 <= 4 for side in (height, width))
        self.pool = nn.AvgPool2d(4) if exact else nn.AdaptiveAvgPool2d((cells[0], cells[1]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.flatten(self.pool(self.blocks(self.stem(x))), 1)


BACKBONES = ("auto", "mlp", "resnet18", "identity")


def build(backbone: Backbone, shape: tuple[int, ...], seed: int) -> nn.Module:
    """The network for samples of `shape`, initialised on the CPU as a function of the seed alone.

    A module of the user's is copied, never changed; a function that makes one is called under the seed.
    """
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if not isinstance(backbone, str):
            return _made(backbone)
        if backbone not in BACKBONES:
            raise unknown("backbone", backbone, BACKBONES)
        if backbone == "identity":
            return nn.Flatten()  # the samples are features already
        image = len(shape) == 3
        if backbone == "auto":
            backbone = "resnet18" if image and min(shape[1:]) >= 25 else "mlp"
        if backbone == "resnet18":
            if not image:
                raise MnemonError(f"resnet18 needs images (channels, height, width), not samples of shape {shape}.")
            return ReducedResNet18(*shape)
        return MLP(math.prod(shape))


def _made(maker: Callable[[], nn.Module]) -> nn.Module:
    """What a function of the user's makes. Whatever is given may come here, and the function may return anything."""
    if not callable(maker):
        raise MnemonError(f"a backbone is a name, an nn.Module or a function that makes one, not {maker!r}.")
    if not _needs_nothing(maker):
        name = getattr(maker, "__name__", repr(maker))
        raise MnemonError(
            f"a function given as backbone is called without arguments, and {name} needs some: give an nn.Module, or a "
            "function without arguments that makes one."
        )
    made = maker()
    if not isinstance(made, nn.Module):
        raise MnemonError(f"a function given as backbone must return an nn.Module, and this one returned {made!r}.")
    return made


def _needs_nothing(maker: Callable[[], nn.Module]) -> bool:
    """Whether it can be called without arguments. Asked beforehand: a TypeError of the function's own is not ours to tell."""
    try:
        inspect.signature(maker).bind()
    except TypeError:
        return False
    except ValueError:  # a few functions written in C do not say
        return True
    return True


def feature_size(backbone: nn.Module, shape: tuple[int, ...]) -> int:
    """d, found by passing one sample; a backbone must return [n, d]."""
    training = backbone.training
    parameter = next(backbone.parameters(), torch.empty(0))
    try:
        with torch.no_grad():
            f = backbone.eval()(torch.zeros((1, *shape), dtype=parameter.dtype, device=parameter.device))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise MnemonError(f"the backbone cannot take samples of shape {shape}: {error}") from error
    finally:
        backbone.train(training)
    if not isinstance(f, Tensor) or f.ndim != 2 or len(f) != 1:
        got = tuple(f.shape) if isinstance(f, Tensor) else type(f).__name__
        raise MnemonError(f"a backbone must return features of shape (n, d); for one sample this one returned {got}.")
    return f.shape[1]
