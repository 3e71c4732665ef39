"""mnemon keeps a classifier learning from a stream: every sample once, new classes at any time, nothing forgotten.

import mnemon
record = mnemon.run("hybrid", "split-digits", seed=0)
record["average_accuracy"], record["average_forgetting"]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"
__all__ = [
    "Client",
    "Embedding",
    "MnemonError",
    "OnlineClassifier",
    "__version__",
    "data",
    "losses",
    "methods",
    "metrics",
    "run",
    "streams",
]

if TYPE_CHECKING:
    from mnemon import data, losses, metrics, streams
    from mnemon.errors import MnemonError
    from mnemon.estimator import Embedding, OnlineClassifier
    from mnemon.experiments.runner import run
    from mnemon.serve.client import Client

_WHERE = {
    "Client": "mnemon.serve.client",
    "Embedding": "mnemon.estimator",
    "MnemonError": "mnemon.errors",
    "OnlineClassifier": "mnemon.estimator",
    "run": "mnemon.experiments.runner",
}


def methods() -> tuple[str, ...]:
    """The names of all methods, those of installed packages too."""
    from mnemon.learning import plugins

    plugins.use_installed()
    return tuple(plugins.known("method"))


def __getattr__(name: str) -> Any:
    """Parts are loaded when they are first used, so that `import mnemon` costs nothing."""
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    if name in ("data", "losses", "metrics", "streams"):
        return importlib.import_module(f"mnemon.{name}")
    raise AttributeError(f"module 'mnemon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
