"""A candidate of a search: values of hyper-parameters, and how they did on validation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemon.experiments.record import Record


@dataclass
class Candidate:
    """Values for the options that are searched, and how they did on validation."""

    values: dict[str, Any]
    trial: int = 0  # its number, where candidates are proposed one after another
    records: dict[int, dict[str, Record]] = field(default_factory=dict)  # by seed and classifier
    diverged: set[int] = field(default_factory=set)  # seeds
    rounds: int = 0  # in how many it took part
    pruned: bool = False  # it gets no further seeds

    @property
    def key(self) -> str:
        """Equal for equal values."""
        return json.dumps(self.values, sort_keys=True)

    @property
    def means(self) -> dict[str, float]:
        """The mean accuracy of each classifier over the seeds; all seeds have the same classifiers."""
        return self._means(self.records)

    def mean_on(self, seeds: Iterable[int]) -> float:
        """The mean accuracy on these seeds, of the classifier that is best there."""
        return max(self._means(seeds).values())

    def _means(self, seeds: Iterable[int]) -> dict[str, float]:
        runs = [self.records[seed] for seed in seeds]
        return {name: mean(run[name]["average_accuracy"] for run in runs) for name in (runs[0] if runs else ())}

    @property
    def classifier(self) -> str | None:
        """The one with the best mean, of equals the first that was named; None without a run."""
        means = self.means
        return max(means, key=lambda name: means[name]) if means else None

    @property
    def best(self) -> dict[int, Record]:
        """The records of the best classifier, by seed."""
        name = self.classifier
        return {} if name is None else {seed: self.records[seed][name] for seed in sorted(self.records)}

    @property
    def accuracies(self) -> list[float]:
        return [record["average_accuracy"] for record in self.best.values()]

    @property
    def rank(self) -> tuple[int, float]:
        """Small is good: who went on before who did not, then the mean; a diverged one is the worst of all."""
        if self.diverged or not self.records:
            return (1, 0.0)
        return (-self.rounds, -mean(self.accuracies))


def mean(values: Iterable[float]) -> float:
    """The same number on every version of Python, so that two that are equal are so everywhere."""
    known = list(values)
    return math.fsum(known) / len(known)


def said(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def listed(seeds: Sequence[int]) -> str:
    """seeds 100-102; seed 100."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    whole = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]}-{seeds[-1]}" if whole else f"seeds {','.join(map(str, seeds))}"
