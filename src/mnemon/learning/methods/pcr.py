"""PCR: proxy-based contrastive replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.views import SecondViews


@dataclass(frozen=True)
class PCR(SecondViews):
    """ER's memory and replay; each sample is compared with the proxies of the samples in its batch (`objectives.PCRLoss`),
    and classified by the nearest of all proxies seen. With `views` = 2 every image comes a second time, shifted and mirrored
    at random."""

    name: ClassVar[str] = "pcr"
    summary: ClassVar[str] = "ER; each sample is compared with the proxies of the samples in its batch, nearest proxy"
    citation: ClassVar[str] = "Lin et al. 2023, PCR: Proxy-based Contrastive Replay"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "pcr"
    default_classifier: ClassVar[str] = "proxy"
