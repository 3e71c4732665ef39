"""Records of the same experiment with different seeds, as one line of a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from mnemon.experiments.metrics import confidence_interval
from mnemon.experiments.records import Record, mean_seconds, precision


class Summary(NamedTuple):
    name: str
    stream: str
    split: str
    runs: int
    accuracy: str
    forgetting: str
    seconds: float


def summarise(records: Sequence[Record]) -> list[Summary]:
    """One entry for each method, loss, classifier, stream, split and set of options, in order of appearance."""
    groups: dict[str, list[Record]] = {}
    for r in records:
        same = [r["method"], r["loss"], r["classifier"], r["stream"], r["split"], r["order"], r["options"]]
        same.append(precision(r))
        groups.setdefault(json.dumps(same, sort_keys=True), []).append(r)
    return [
        Summary(
            name=display_name(group[0]),
            stream=group[0]["stream"],
            split=group[0]["split"],
            runs=len(group),
            accuracy=interval([r["average_accuracy"] for r in group]),
            forgetting=interval([r["average_forgetting"] for r in group]),
            seconds=mean_seconds(group) or 0.0,
        )
        for group in groups.values()
    ]


def display_name(record: Record) -> str:
    """method [loss] + classifier; the loss only where it is not the method's own."""
    from mnemon.learning.methods import methods

    known = methods().get(record["method"])
    own = known is not None and known.default_objective == record["loss"]
    more = "".join(f" ({name})" for name in precision(record).values())
    return f"{record['method']}{'' if own else ' ' + record['loss']} + {record['classifier']}{more}"


def interval(values: Sequence[float | None]) -> str:
    """mean ± half-width; a single run has no interval, and an undefined value is a dash."""
    known = [v for v in values if v is not None]
    if not known:
        return "-"
    if len(known) == 1:
        return f"{known[0]:.2f}"
    mean, half = confidence_interval(known)
    return f"{mean:.2f} ± {half:.2f}"
