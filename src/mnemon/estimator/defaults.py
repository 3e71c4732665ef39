"""Hyper-parameters for a data set nobody has tuned: chosen on validation parts, docs/own-data.md has the figures."""

from __future__ import annotations

from typing import Any

from mnemon.learning.method import Method
from mnemon.learning.objectives import OBJECTIVES


def defaults(method: type[Method], loss: str | None) -> dict[str, Any]:
    """Learning rate, and γ where the loss has one."""
    objective = OBJECTIVES.get(loss or method.default_objective)
    found: dict[str, Any] = {"lr": 0.05}
    if objective is not None and hasattr(objective, "gamma"):
        found["gamma"] = 1.0
    return found
