"""i.i.d. online and offline: plain SGD on the same samples in random order; the paper's upper bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.method import Method


@dataclass(frozen=True)
class IIDOnline(Method):
    """Every sample once, shuffled."""

    name: ClassVar[str] = "iid-online"
    summary: ClassVar[str] = "plain SGD on the shuffled stream, one pass: no forgetting, and no sample twice"
    citation: ClassVar[str] = "-"
    cost: ClassVar[str] = "0.5"
    replays: ClassVar[bool] = False
    epochs: ClassVar[int] = 1


@dataclass(frozen=True)
class IIDOffline(Method):
    """Five passes, each shuffled anew."""

    name: ClassVar[str] = "iid-offline"
    summary: ClassVar[str] = "plain SGD on the shuffled stream, five passes: what more time would give"
    citation: ClassVar[str] = "-"
    cost: ClassVar[str] = "0.5 (5 passes)"
    replays: ClassVar[bool] = False
    epochs: ClassVar[int] = 5
