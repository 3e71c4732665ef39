"""From the parameters of an OnlineClassifier to a method, its loss and its classifier."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import shorten
from typing import Any

import numpy as np
import torch

from mnemon.errors import MnemonError
from mnemon.estimator.auto import asks_for_views, resolve
from mnemon.estimator.embedding import Embedding, network
from mnemon.estimator.online import has_reservoir
from mnemon.estimator.widening import check_widens
from mnemon.learning import plugins
from mnemon.learning.build import Choice, choose, meaningless
from mnemon.learning.method import Method
from mnemon.learning.methods import given as method_given
from mnemon.learning.options import fields

# Parameters that came after 0.1: what a model saved without them was made with.
ADDED: dict[str, Any] = {"exam": 0, "features": "fixed", "half_life": None, "views": None}
FEATURES = ("fixed", "open")
FLOAT32 = float(np.finfo(np.float32).max)
MOST_KEPT = 100_000_000  # rows of a memory, as the option of methods that have one


def choice(of: Mapping[str, Any], shape: tuple[int, ...] = ()) -> Choice:
    """The method filled in, for samples of this shape; options it has no use for are left out where they stand at their
    defaults."""
    for name in ("loss", "classifier"):
        if not isinstance(of[name], str | None):
            raise MnemonError(f"{name} must be a name or None, not {of[name]!r}.")
    if not isinstance(of["features"], str) or of["features"] not in FEATURES:
        raise MnemonError(f"features is 'fixed' or 'open', not {of['features']!r:.60}.")
    if of["features"] == "open":
        check_widens(of["backbone"])
    of = resolve(of, shape)
    kind, loss, classifier = method_given(of["method"]), of["loss"], of["classifier"]
    sizes = {name: of[name] for name in ("memory_size", "replay_size")}
    if not kind.replays and not all(type(size) is int or isinstance(size, np.integer) for size in sizes.values()):
        raise MnemonError("memory_size and replay_size must be of type int, though this method keeps no memory.")
    if not kind.replays and not all(0 <= size <= MOST_KEPT for size in sizes.values()):
        raise MnemonError(
            f"memory_size and replay_size must be from 0 to {MOST_KEPT:,}, though {kind.name} keeps no memory."
        )
    given = {name: of[name] for name in ("batch_size", "lr", "gamma") if of[name] is not None}
    given |= {name: size for name, size in sizes.items() if kind.replays and size is not None}
    given |= _views(of, kind)
    if "average" not in meaningless(kind):
        given["average"] = of["average"]
    elif not same(of["average"], "auto"):
        raise MnemonError(f"{kind.name} trains no weights that could be averaged: average must be 'auto', its default.")
    check_half_life(of["half_life"], kind)
    if classifier is None and kind.default_classifier == "gaussian":
        # How many samples will come is not known. The features of a table have units of their own: those with large numbers
        # must not count for more.
        classifier = "gaussian:lam=auto:shrink=diagonal" if len(shape) == 1 else "gaussian:lam=auto"
    if same(network(of["backbone"]), "identity") and loss is None and not kind.needs_sample_loss:
        classifier = classifier or kind.default_classifier
        if plugins.classifier(classifier).needs == ("memory",):
            # The one loss that trains nothing but features: here nothing at all, so no gradient is taken.
            loss = "ms"
    try:
        found = choose(kind, loss, None if classifier is None else [classifier], defaults(kind, loss) | given)
    except OverflowError as error:  # a whole number no float can hold
        raise MnemonError(f"lr or gamma is out of range: {error}.") from None
    for name, number in (("lr", found.method.lr), ("gamma", getattr(found.objective, "gamma", 0.0))):
        if number > FLOAT32:
            raise MnemonError(f"{name} must be at most {FLOAT32:.1e}, not {number}.")
    return found


def _views(of: Mapping[str, Any], kind: type[Method]) -> dict[str, Any]:
    """The option of the methods that have it; of the others one view is all there is."""
    if of["views"] is None:
        return {}
    if isinstance(of["backbone"], Embedding) and asks_for_views(of):
        raise MnemonError(
            "behind an embedding function there are vectors, which have no mirror images: learn those of the inputs yourself."
        )
    if "views" in fields(kind):
        return {"views": of["views"]}
    if asks_for_views(of):
        raise MnemonError(f"{kind.name} learns one view of a sample; views is for slda, scr and pcr.")
    return {}


def exam(given: Any) -> int:
    """How many samples of a class are held out."""
    if not (type(given) is int or isinstance(given, np.integer)) or given < 0:
        raise MnemonError(f"exam is how many samples of a class are held out of learning, 0 or more, not {given!r}.")
    return int(given)


def check_half_life(half_life: Any, method: type[Method]) -> None:
    """Refuse what is no half-life, and one of what the method does not keep."""
    if half_life is None:
        return
    number = isinstance(half_life, int | float | np.integer | np.floating) and not isinstance(half_life, bool)
    if not same(half_life, "auto") and not (number and 0 < half_life < np.inf):
        raise MnemonError(
            f"half_life is None, 'auto', or a number of samples of a class above 0, not {shorten(repr(half_life), 80)}."
        )
    if not method.keeps_statistics and not has_reservoir(method):
        raise MnemonError(f"{method.name} keeps no samples that could age: half_life must be None.")


def defaults(method: type[Method], loss: str | None) -> dict[str, Any]:
    """Learning rate, and γ where the loss has one, for a dataset that was not tuned for: chosen on validation parts,
    docs/classifier-figures.md has the figures."""
    objective = plugins.known("loss").get(loss or method.default_objective)
    found: dict[str, Any] = {"lr": 0.05} if method.trains else {}
    if objective is not None and hasattr(objective, "gamma"):
        found["gamma"] = 1.0
    return found


def same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are equal; modules and functions only if they are one."""
    return a is b or (type(a) is type(b) and isinstance(a, str | int | float | torch.device) and a == b)
