"""Fine-tune: learn each batch and keep nothing; the lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.method import Method


@dataclass(frozen=True)
class FineTune(Method):
    """One SGD step on the new samples alone."""

    name: ClassVar[str] = "fine-tune"
    summary: ClassVar[str] = "plain SGD on the new samples, no memory: the lower bound"
    citation: ClassVar[str] = "-"
    cost: ClassVar[str] = "0.5"
    replays: ClassVar[bool] = False
