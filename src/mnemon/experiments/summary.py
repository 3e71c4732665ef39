"""Experiments as lines of a table: the records that differ in nothing but their seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mnemon.experiments.record import Record, mean_seconds
from mnemon.experiments.stats import estimate


class Summary(NamedTuple):
    name: str
    stream: str
    split: str
    runs: int
    accuracy: str
    forgetting: str
    seconds: float


def summarise(records: Sequence[Record]) -> list[Summary]:
    """One entry for each experiment, in order of appearance."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.experiment, []).append(record)
    return [
        Summary(
            name=group[0].display_name,
            stream=group[0]["stream"],
            split=group[0]["split"],
            runs=len(group),
            accuracy=_estimated(group, "average_accuracy"),
            forgetting=_estimated(group, "average_forgetting"),
            seconds=mean_seconds(group) or 0.0,
        )
        for group in groups.values()
    ]


def _estimated(group: Sequence[Record], metric: str) -> str:
    found = estimate(record[metric] for record in group)
    return "-" if found is None else found.text()
