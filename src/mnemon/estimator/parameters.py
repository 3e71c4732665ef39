"""From the parameters of an OnlineClassifier to a method, its loss and its classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from mnemon.errors import MnemonError
from mnemon.learning.build import Choice, choose, meaningless
from mnemon.learning.classifiers import classifier as classifier_named
from mnemon.learning.method import Method
from mnemon.learning.methods import given as method_given
from mnemon.learning.objectives import OBJECTIVES

FLOAT32 = float(np.finfo(np.float32).max)


def choice(of: Mapping[str, Any], shape: tuple[int, ...] = ()) -> Choice:
    """The method filled in, for samples of this shape; options it has no use for are left out where they stand at their
    defaults."""
    for name in ("loss", "classifier"):
        if not isinstance(of[name], str | None):
            raise MnemonError(f"{name} must be a name or None, not {of[name]!r}.")
    kind, loss, classifier = method_given(of["method"]), of["loss"], of["classifier"]
    sizes = {name: of[name] for name in ("memory_size", "replay_size")}
    if not kind.replays and not all(type(size) is int or isinstance(size, np.integer) for size in sizes.values()):
        raise MnemonError("memory_size and replay_size must be of type int, though this method keeps no memory.")
    given = {name: of[name] for name in ("batch_size", "lr", "gamma") if of[name] is not None}
    given |= {name: size for name, size in sizes.items() if kind.replays and size is not None}
    if "average" not in meaningless(kind):
        given["average"] = of["average"]
    elif not same(of["average"], "auto"):
        raise MnemonError(f"{kind.name} trains no weights that could be averaged: average must be 'auto', its default.")
    if classifier is None and kind.default_classifier == "gaussian" and len(shape) == 1:
        # The features of a table have units of their own: those with large numbers must not count for more.
        classifier = "gaussian:shrink=diagonal"
    if same(of["backbone"], "identity") and loss is None and not kind.needs_sample_loss:
        classifier = classifier or kind.default_classifier
        if classifier_named(classifier).needs == ("memory",):
            # The one loss that trains nothing but features: here nothing at all, so no gradient is taken.
            loss = "ms"
    try:
        found = choose(kind, loss, None if classifier is None else [classifier], defaults(kind, loss) | given)
    except OverflowError as error:  # a whole number no float can hold
        raise MnemonError(f"lr or gamma is out of range: {error}.") from None
    if found.method.lr > FLOAT32:
        raise MnemonError(f"lr must be at most {FLOAT32:.1e}, not {found.method.lr}.")
    return found


def defaults(method: type[Method], loss: str | None) -> dict[str, Any]:
    """Learning rate, and γ where the loss has one, for a dataset that was not tuned for: chosen on validation parts,
    docs/own-data.md has the figures."""
    objective = OBJECTIVES.get(loss or method.default_objective)
    found: dict[str, Any] = {"lr": 0.05} if method.trains else {}
    if objective is not None and hasattr(objective, "gamma"):
        found["gamma"] = 1.0
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are equal; modules and functions only if they are one."""
    return a is b or (type(a) is type(b) and isinstance(a, str | int | float | torch.device) and a == b)
