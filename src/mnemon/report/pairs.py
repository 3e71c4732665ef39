"""Which runs may be compared with which: seed by seed, on the same stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemon.experiments.records import Record
from mnemon.report.groups import Estimate, Group, estimate


def difference(mine: Group, theirs: Group, metric: str = "average_accuracy") -> tuple[Estimate, int] | None:
    """Mine less theirs over the seeds both have, and how many these are; None where a pair has not seen the same samples in
    the same order, or a value is not defined."""
    seeds = sorted(set(mine.seeds) & set(theirs.seeds))
    if not seeds or not same_stream(mine, theirs) or not (mine.values(metric) and theirs.values(metric)):
        return None
    ours, others = ({r["seed"]: float(r[metric]) for r in group.records} for group in (mine, theirs))
    return estimate([ours[seed] - others[seed] for seed in seeds]), len(seeds)


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
    sizes = {size for group in (a, b) if (size := group.first.get("memory_size"))}
    networks = {group.first["protocol"].get("backbone") for group in (a, b)}
    return same_stream(a, b) and len(sizes) <= 1 and len(networks) == 1


def by_way(groups: Sequence[Group]) -> dict[tuple[str, str, str], list[Group]]:
    """Groups that learn and classify in the same way, with other settings."""
    ways: dict[tuple[str, str, str], list[Group]] = {}
    for group in groups:
        ways.setdefault(group.way, []).append(group)
    return ways


def standing(groups: Sequence[Group], beside: Group | None = None) -> Group | None:
    """The group that speaks for a way that was run with several settings: the one at the settings `mnemon run` takes by
    itself, else the one with the most runs. Results decide only between settings alike in that, as after a search: a cell
    of fifteen runs is not displaced by five lucky ones."""
    fit = [group for group in groups if beside is None or comparable(group, beside)]
    return max(fit, key=lambda group: (group.usual, len(group.records), group.accuracy), default=None)
