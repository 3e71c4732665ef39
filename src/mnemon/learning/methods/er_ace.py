"""ER-ACE: ER whose new samples compete only with the classes of their own batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.method import Method


@dataclass(frozen=True)
class ERACE(Method):
    """ER with an asymmetric cross-entropy: see `objectives.ACE`."""

    name: ClassVar[str] = "er-ace"
    summary: ClassVar[str] = "ER; the loss of new samples runs over the classes of their batch only"
    citation: ClassVar[str] = "Caccia et al. 2022, New Insights on Reducing Abrupt Representation Change"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "ace"


@dataclass(frozen=True)
class HybridACE(Method):
    """The paper's generative framework with ER-ACE's loss in the place of Proxy-NCA: see `objectives.HybridACE`."""

    name: ClassVar[str] = "hybrid-ace"
    summary: ClassVar[str] = "ours: Multi-Similarity + ER-ACE's cross-entropy, nearest class mean from the memory"
    citation: ClassVar[str] = "mnemon"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "hybrid-ace"
    default_classifier: ClassVar[str] = "ncm"
