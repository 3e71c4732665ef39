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
