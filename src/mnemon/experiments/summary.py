"""What records of the same experiment share, and the experiments as lines of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from mnemon.experiments.records import Record, mean_seconds, precision
from mnemon.experiments.stats import estimate

# What makes a run another experiment, beside its options.
PROTOCOL = ("passes", "augmentation", "memory", "forward", "backbone")


class Variant(NamedTuple):
    """How a run learns and classifies."""

    method: str
    loss: str
    classifier: str


def variant(record: Record) -> Variant:
    return Variant(record["method"], record["loss"], record["classifier"])


def settings(record: Record) -> dict[str, Any]:
    """What makes two runs of a variant different experiments, apart from stream and split."""
    found = dict(record["options"])
    found |= {name: record["protocol"][name] for name in PROTOCOL if name in record["protocol"]}
    found |= {"order": record.get("order", "natural"), "data": record.get("data", {}).get("checksum", "")[:8]}
    if record["data"].get("name") == "arrays":  # the name of a stream object says no more than its kind
        found |= {"tasks": len(record["protocol"].get("tasks", ())), "samples": record["protocol"].get("samples")}
    return found | precision(record)


def experiment(record: Record) -> str:
    """Equal for the runs that differ in nothing but their seed."""
    return json.dumps(
        [*variant(record), record["stream"], record.get("split", "test"), settings(record)], sort_keys=True
    )


def display_name(record: Record) -> str:
    """method [loss] + classifier; the loss only where it is not the method's own."""
    from mnemon.learning.methods import methods

    known = methods().get(record["method"])
    own = known is not None and known.default_objective == record["loss"]
    more = "".join(f" ({name})" for name in precision(record).values())
    return f"{record['method']}{'' if own else ' ' + record['loss']} + {record['classifier']}{more}"


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
        groups.setdefault(experiment(record), []).append(record)
    return [
        Summary(
            name=display_name(group[0]),
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
