"""Hybrid-ACE: ours, beyond the paper. The hybrid with ER-ACE's cross-entropy in the place of Proxy-NCA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.method import Method


@dataclass(frozen=True)
class HybridACE(Method):
    """The paper's generative framework with ER-ACE's loss in the place of Proxy-NCA: see `objectives.HybridACELoss`."""

    name: ClassVar[str] = "hybrid-ace"
    summary: ClassVar[str] = "ours: Multi-Similarity + ER-ACE's cross-entropy, nearest class mean from the memory"
    citation: ClassVar[str] = "mnemon"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "hybrid-ace"
    default_classifier: ClassVar[str] = "ncm"
