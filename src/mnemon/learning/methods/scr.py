"""SCR: supervised contrastive replay, nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.views import SecondViews


@dataclass(frozen=True)
class SCR(SecondViews):
    """ER's memory and replay, the supervised contrastive loss through an MLP (`objectives.SupCon`), and the nearest class
    mean on the features below it, means of unit length. With `views` = 2 every image comes a second time, shifted and
    mirrored at random."""

    name: ClassVar[str] = "scr"
    summary: ClassVar[str] = "supervised contrastive replay, nearest class mean from the memory"
    citation: ClassVar[str] = "Mai et al. 2021, Supervised Contrastive Replay"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "supcon"
    default_classifier: ClassVar[str] = "ncm-unit"
