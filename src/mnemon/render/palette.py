"""Which colour and line a way to learn has, in every figure; and the order in which ways are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mnemon.experiments import records
from mnemon.experiments.records import Record
from mnemon.render import names

PROTOCOL = ("passes", "augmentation", "memory", "forward", "backbone")  # parts that make a run another experiment
HUES = 7  # series colours beside the accent


class Style(NamedTuple):
    """How a group is drawn, in every figure: 0 is the accent, 1 … HUES the other colours, HUES + 1 the muted one."""

    colour: int
    dash: int


def way_of(record: Record) -> tuple[str, str, str]:
    return record["method"], record["loss"], record["classifier"]


def facts_of(record: Record) -> dict[str, Any]:
    """Everything that makes two runs different experiments, beside their way; what the name tells when it differs."""
    facts = dict(record["options"])
    facts |= {name: record["protocol"][name] for name in PROTOCOL if name in record["protocol"]}
    facts |= {"order": record.get("order", "natural"), "data": record.get("data", {}).get("checksum", "")[:8]}
    if record["data"].get("name") == "arrays":  # the name of a stream object says no more than its kind
        facts |= {"tasks": len(record["protocol"].get("tasks", ())), "samples": record["protocol"].get("samples")}
    return facts | records.precision(record)


def order_of(record: Record) -> tuple[Any, ...]:
    classifiers = list(names.CLASSIFIERS)
    classifier = record["classifier"]
    place = classifiers.index(classifier) if classifier in classifiers else len(classifiers)
    values = [(k, (0, v, "") if isinstance(v, int | float) else (1, 0, str(v))) for k, v in facts_of(record).items()]
    return names.method_order(record["method"]), record["method"], record["loss"], place, classifier, sorted(values)


def palette_of(found: Sequence[Record]) -> dict[tuple[str, str, str], Style]:
    """One style a way for the whole page: the paper's own in the accent, the bounds muted, the rest by order."""
    ways = list(dict.fromkeys(way_of(r) for r in sorted(found, key=order_of)))
    palette: dict[tuple[str, str, str], Style] = {}
    others = 0
    for way in ways:
        if way[0] in names.BOUNDS:
            palette[way] = Style(HUES + 1, names.BOUNDS.index(way[0]))
        elif way == ("hybrid", "hybrid", "ncm"):
            palette[way] = Style(0, 0)
        else:
            palette[way] = Style(1 + others % HUES, others // HUES)
            others += 1
    return palette
