"""What `method="auto"` stands for: a learner for images, for vectors and for embeddings, as validation parts chose them.

    python benchmarks/defaults.py

prints the tables; docs/classifier-figures.md has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from mnemon.errors import MnemonError
from mnemon.estimator.embedding import network
from mnemon.learning.backbones import architecture
from mnemon.learning.methods.slda import are_images
from mnemon.learning.plugins import classifier as classifier_named

AUTO = "auto"

NETWORK = {"method": "hybrid", "classifier": "ridge"}  # vectors, and whatever asks for a network
PATCHES = {"method": "slda", "backbone": "patches:power=0.5:threshold=0.5", "classifier": "gaussian:lam=auto"}  # images
EMBEDDINGS = {"method": "slda", "classifier": "gaussian:lam=auto"}

# What only a learner with a memory or with gradient steps has: at another value than this, it is asked for.
OF_NETWORKS: dict[str, Any] = {
    "loss": None,
    "lr": None,
    "gamma": None,
    "average": "auto",
    "memory_size": 1000,
    "batch_size": 10,
    "replay_size": 10,
}


def resolve(params: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """The parameters, with method, backbone and classifier in place of "auto" for samples of this shape; those of another
    method as they are. What is given stays: only a backbone of "auto" and a classifier of None are filled in."""
    given = dict(params)
    if not (isinstance(given["method"], str) and given["method"] == AUTO):
        return given
    chosen = _chosen(given, shape)
    given["method"] = chosen["method"]
    if _is_auto(given["backbone"]):
        given["backbone"] = chosen.get("backbone", AUTO)
    if given["classifier"] is None:
        given["classifier"] = chosen.get("classifier")
    return given


def _chosen(given: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, str]:
    body, classifier = network(given["backbone"]), given["classifier"]
    if asks_for_network(given):
        _check_agreement(given)
        return NETWORK
    if isinstance(classifier, str) or not _is_auto(body) or asks_for_views(given):  # none asks for a network
        fixed = isinstance(body, nn.Module) or (isinstance(body, str) and architecture(body).name == "identity")
        return EMBEDDINGS if fixed else PATCHES if are_images(shape) else {"method": "slda"}
    return PATCHES if are_images(shape) else NETWORK


def asks_for_network(given: Mapping[str, Any]) -> bool:
    """Whether something is given that only a network has: an option of training or of the memory at another value than its
    default, a classifier that reads no statistics, a backbone that is trained."""
    if not all(_is(given[name], usual) for name, usual in OF_NETWORKS.items()):
        return True
    return bool(_of_network(given))


def _of_network(given: Mapping[str, Any]) -> list[str]:
    """A classifier and a backbone that ask for a network."""
    classifier, body = given["classifier"], network(given["backbone"])
    found = []
    if isinstance(classifier, str) and not _reads_statistics(classifier):
        found.append(f"classifier={classifier!r}")
    if not _is_auto(body) and _is_trained(body):
        found.append(f"backbone={body!r}" if isinstance(body, str) else "the backbone")
    return found


def _is_trained(body: Any) -> bool:
    if isinstance(body, nn.Module):
        return any(p.requires_grad for p in body.parameters())
    return not isinstance(body, str) or architecture(body).trained


def _check_agreement(given: Mapping[str, Any]) -> None:
    """Refuse options of a network beside a classifier or backbone that only statistics have."""
    options = [name for name, usual in OF_NETWORKS.items() if not _is(given[name], usual)]
    body, classifier = network(given["backbone"]), given["classifier"]
    if asks_for_views(given):  # then any reason to take a network contradicts it
        options += _of_network(given)
    of_statistics = [
        *([f"views={given['views']!r}"] if asks_for_views(given) else []),
        *([f"classifier={classifier!r}"] if isinstance(classifier, str) and _reads_statistics(classifier) else []),
        *([f"backbone={body!r}"] if isinstance(body, str) and body.partition(":")[0] == "patches" else []),
    ]
    if options and of_statistics:
        raise MnemonError(
            f"{options[0]} asks for a network, and {of_statistics[0]} for statistics (slda): leave one of them out."
        )


def asks_for_views(given: Mapping[str, Any]) -> bool:
    """Whether more than one view of each sample is asked for, which with "auto" asks for statistics."""
    return given["views"] is not None and not _is(given["views"], 1)


def _reads_statistics(classifier: str) -> bool:
    return "statistics" in classifier_named(classifier).needs


def _is(given: Any, usual: Any) -> bool:
    """Whether a parameter stands at its default; what is given may be anything."""
    return given is usual or (
        isinstance(given, str | int | np.integer) and not isinstance(given, bool) and given == usual
    )


def _is_auto(backbone: Any) -> bool:
    return isinstance(backbone, str) and backbone == AUTO
