"""ER-reservoir: replay ten random memory rows beside ten new samples; the memory is a reservoir sample of the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.replay import UniformReplay


@dataclass(frozen=True)
class ER(UniformReplay):
    """The default of every seam: see `learning/method.py`, which is ER step by step."""

    name: ClassVar[str] = "er"
    summary: ClassVar[str] = "experience replay with a reservoir memory, softmax classifier"
    citation: ClassVar[str] = "Chaudhry et al. 2019, On Tiny Episodic Memories in Continual Learning"
    cost: ClassVar[str] = "1"
