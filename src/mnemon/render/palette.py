"""The colour and line of a variant in every figure, and the order in which experiments are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mnemon.experiments.record import Record, Variant
from mnemon.render import names

HUES = 7  # series colours beside the accent


class Style(NamedTuple):
    """How a group is drawn, in every figure: 0 is the accent, 1 … HUES the other colours, HUES + 1 the muted one."""

    colour: int
    dash: int


def order_of(record: Record) -> tuple[Any, ...]:
    classifiers = list(names.CLASSIFIERS)
    classifier = record["classifier"]
    place = classifiers.index(classifier) if classifier in classifiers else len(classifiers)
    values = [(k, (0, v, "") if isinstance(v, int | float) else (1, 0, str(v))) for k, v in record.settings.items()]
    return names.method_order(record["method"]), record["method"], record["loss"], place, classifier, sorted(values)


def palette_of(found: Sequence[Record]) -> dict[Variant, Style]:
    """One style per variant for the whole page: the paper's own in the accent, the bounds muted, the rest by order."""
    palette: dict[Variant, Style] = {}
    others = 0
    for each in dict.fromkeys(r.variant for r in sorted(found, key=order_of)):
        if each.method in names.BOUNDS:
            palette[each] = Style(HUES + 1, names.BOUNDS.index(each.method))
        elif each == names.THE_PAPERS:
            palette[each] = Style(0, 0)
        else:
            palette[each] = Style(1 + others % HUES, others // HUES)
            others += 1
    return palette
