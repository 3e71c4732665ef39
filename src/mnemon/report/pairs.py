"""Which runs may be compared: those with the same seed on the same stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mnemon.experiments.record import Record, Variant
from mnemon.experiments.stats import Estimate, paired_difference
from mnemon.report.groups import Group


def difference(mine: Group, theirs: Group, metric: str = "average_accuracy") -> Estimate | None:
    """The paired difference, mine minus theirs; None where they share no seed, a pair has not seen the same samples in the same
    order, or a value is not defined."""
    if not same_stream(mine, theirs):
        return None
    return paired_difference(mine.values(metric), theirs.values(metric))


def same_stream(a: Group, b: Group) -> bool:
    """Whether equal seeds mean equal streams: the same data, classes in the same order, as many samples of each."""
    mine, theirs = ({r["seed"]: _stream(r) for r in group.records} for group in (a, b))
    shared = mine.keys() & theirs.keys()
    return all(mine[seed] == theirs[seed] for seed in shared) and _stream(a.first)[:2] == _stream(b.first)[:2]


def _stream(record: Record) -> tuple[Any, ...]:
    stream = record["protocol"]
    known = [stream.get(part) for part in ("kind", "tasks", "boundaries", "class_counts")]
    return record["data"].get("checksum"), record.get("order", "natural"), record["data"].get("stream"), known


def comparable(a: Group, b: Group) -> bool:
    """On the same stream, with the same network, and with as large a memory, where both have one."""
    return not obstacle(a, b)


def obstacle(a: Group, b: Group) -> str:
    """Why two groups cannot be compared, in two words; "" where they can."""
    if not same_stream(a, b):
        return "other stream"
    if len({group.first["protocol"].get("backbone") for group in (a, b)}) > 1:
        return "other network"
    sizes = {size for group in (a, b) if (size := group.first.get("memory_size"))}
    return "other memory" if len(sizes) > 1 else ""


def by_variant(groups: Sequence[Group]) -> dict[Variant, list[Group]]:
    """The groups of each variant, which differ in their settings."""
    variants: dict[Variant, list[Group]] = {}
    for group in groups:
        variants.setdefault(group.variant, []).append(group)
    return variants


def standing(groups: Sequence[Group], beside: Group | None = None) -> Group | None:
    """The group that represents a variant that was run with several settings: the first of them, or of those that can be
    compared with `beside`, in the order of `ranked`."""
    return first_comparable(ranked(groups), beside) if beside else next(iter(ranked(groups)), None)


def ranked(groups: Sequence[Group]) -> list[Group]:
    """The one at the settings of `mnemon run` without options, then by the number of runs. Results decide only between groups
    that are equal in both, as after a search: a cell of fifteen runs is not displaced by five lucky ones."""
    return sorted(groups, key=lambda group: (group.usual, len(group.records), group.accuracy), reverse=True)


def first_comparable(groups: Iterable[Group], beside: Group) -> Group | None:
    return next((group for group in groups if comparable(group, beside)), None)
