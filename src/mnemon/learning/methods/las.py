"""LAS: ER whose logits are adjusted in training by how often each class came lately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.method import Method


@dataclass(frozen=True)
class LAS(Method):
    """ER with logit-adjusted cross-entropy: see `objectives.LogitAdjusted`."""

    name: ClassVar[str] = "las"
    summary: ClassVar[str] = "ER; in training the log of the running class prior is added to the logits"
    citation: ClassVar[str] = "Huang et al. 2024, Online Continual Learning via Logit Adjusted Softmax"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "las"
