"""Feature extractors f: one small file each, found by its name, or any nn.Module that returns one vector per sample."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mnemon import discovery
from mnemon.errors import MnemonError
from mnemon.learning import named
from mnemon.learning.backbone import Architecture
from mnemon.learning.backbones.mlp import MLP
from mnemon.learning.backbones.patches import PatchFeatures
from mnemon.learning.backbones.resnet18 import ReducedResNet18
from mnemon.runtime.seeding import seeded

__all__ = [
    "BACKBONES",
    "MLP",
    "Backbone",
    "PatchFeatures",
    "ReducedResNet18",
    "architecture",
    "build",
    "feature_size",
    "title",
]

Backbone = str | nn.Module | Callable[[], nn.Module]

BACKBONES = discovery.classes(__name__, Architecture)


def architecture(text: str) -> Architecture:
    """Make the architecture that `NAME` or `NAME:OPTION=VALUE:…` stands for."""
    return named.parse(text, BACKBONES, "backbone")


def build(backbone: Backbone, shape: tuple[int, ...], seed: int) -> nn.Module:
    """Make the network for samples of `shape`, initialised on the CPU as a function of the seed alone.

    A module of the user's is copied, never changed; a function that makes one is called under the seed.
    """
    if isinstance(backbone, nn.Module):
        return copy.deepcopy(backbone)
    with seeded(seed):
        return architecture(backbone).build(shape) if isinstance(backbone, str) else _made(backbone)


def title(backbone: Backbone, built: nn.Module) -> str:
    """Name a network for the record: its class, and the options that are not at their defaults."""
    _, colon, options = architecture(backbone).name.partition(":") if isinstance(backbone, str) else ("", "", "")
    return type(built).__name__ + colon + options


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
