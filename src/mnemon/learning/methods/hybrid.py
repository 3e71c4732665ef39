"""Hybrid: the paper's generative framework. ER's memory and replay, L_MS + γ·L_PNCA, nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mnemon.learning.method import Method


@dataclass(frozen=True)
class Hybrid(Method):
    """Per batch: B_r uniform from M; one SGD step on L_MS + γ·L_PNCA over B_n ∪ B_r (Eq. 8), proxies back to unit length;
    reservoir update. Prediction: the class whose mean over the memory is nearest (Eq. 2)."""

    name: ClassVar[str] = "hybrid"
    summary: ClassVar[str] = "the paper: Multi-Similarity + Proxy-NCA training, nearest class mean from the memory"
    citation: ClassVar[str] = "Shen et al. 2022, Bypassing Logits Bias in Online Class-Incremental Learning"
    cost: ClassVar[str] = "1"
    default_objective: ClassVar[str] = "hybrid"
    default_classifier: ClassVar[str] = "ncm"
