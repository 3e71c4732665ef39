"""Which classes arrive when: the paper's Figure 2 for this stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnemon.render import names
from mnemon.render.svg import Pen
from mnemon.report import plots
from mnemon.report.figure import Figure, Panel
from mnemon.report.groups import Section
from mnemon.report.plots import Share
from mnemon.streams.kinds import kinds, schedule
from mnemon.streams.kinds.smooth import Smooth
from mnemon.streams.schedule import Schedule

POINTS = 24  # of a curve, and fewer than twice as many


def probability(section: Section, pen: Pen) -> Figure:
    """This kind of stream beside the other one, over the same classes and as long."""
    title = "Which classes arrive when"
    protocol = section.protocol
    counts = protocol.get("class_counts", [])
    length = int(protocol.get("samples", 0))
    if protocol.get("kind") not in kinds() or not counts or not length:
        return Figure("probability", title, "The samples are shuffled: every class may come at any time, always alike.")
    classes = len(counts)
    labels = [label for label, _ in counts]
    curves = schedule(section.stream)
    if curves is None or curves.probabilities(classes, classes) is None:
        tasks, ends = protocol["tasks"], protocol["boundaries"]
        shares = _split_shares(tasks, ends, {_key(label): count for label, count in counts})
        mine = Panel("This stream", _split(pen, shares, length, tasks, ends))
        panels = (mine, Panel("The same classes, Smooth", _curves(pen, labels, length, Smooth())))
    else:
        mine = Panel("This stream", _curves(pen, labels, length, curves))
        groups = np.array_split(np.arange(classes), 10 if classes >= 100 else max(1, classes // 2))
        tasks = [[labels[i] for i in group] for group in groups]
        ends = np.cumsum([len(g) * length / classes for g in groups]).tolist()
        shares = _split_shares(tasks, ends, {_key(label): 1 for label in labels})
        panels = (Panel("The same classes, Split", _split(pen, shares, length, tasks, ends)), mine)
    caption = (
        "The probability of each class at each time (the paper’s Figure 2). On a Split stream, tasks of a few classes "
        "follow each other abruptly; on a Smooth one every class comes and goes, and there are no tasks at all."
    )
    if curves is not None and curves.shuffles_classes:
        caption += f" Each seed of a {curves.title} stream deals the classes anew."
    return Figure("probability", title, caption, panels)


def _key(label: Any) -> str:
    """A label as a dictionary key: 1, True and "1" are different labels."""
    return repr(label)


def _split_shares(tasks: Sequence[Sequence[Any]], ends: Sequence[float], counts: dict[str, int]) -> list[Share]:
    """Inside its task a class has its share of the samples, and none outside."""
    shares = []
    start = 0.0
    for task, end in zip(tasks, ends, strict=True):
        total = sum(counts.get(_key(label), 0) for label in task)
        for label in task:
            share = counts.get(_key(label), 0) / max(total, 1)
            shares.append(Share(np.array([start, start, end, end]), np.array([0, share, share, 0])))
        start = end
    return shares


def _split(
    pen: Pen, shares: Sequence[Share], length: int, tasks: Sequence[Sequence[Any]], ends: Sequence[float]
) -> str:
    """Boxes, with the classes above each task, or its number where they do not fit."""
    starts = [0.0, *ends[:-1]]
    lists = [" ".join(names.text(label) for label in task) for task in tasks]
    if not _fit(lists):
        lists = [f"task {number}" if len(tasks) <= 8 else f"{number}" for number in range(1, len(tasks) + 1)]
    captions = [((a + b) / 2, text) for a, b, text in zip(starts, ends, lists, strict=True)]
    label = f"Split stream: class probabilities over time, {names.plural(len(tasks), 'task')} one after the other"
    return plots.probability(pen, shares, length, captions, label)


def _fit(texts: Sequence[str]) -> bool:
    """Can these stand side by side above a plot?"""
    return max(len(text) + 2 for text in texts) * len(texts) <= 80


def _curves(pen: Pen, labels: Sequence[Any], length: int, schedule: Schedule) -> str:
    """The probabilities classes are drawn with; their shape does not depend on the length, so a coarse time will do."""
    classes = len(labels)
    coarse = classes * max(16, 400 // classes)
    weights = schedule.probabilities(classes, coarse)
    assert weights is not None
    time = np.linspace(length / coarse, length, coarse)
    shares = []
    for c in range(classes):
        there = np.flatnonzero(weights[:, c] > 1e-3)
        drawn = there[:: max(1, len(there) // POINTS)]
        shares.append(Share(time[drawn], weights[drawn, c]))
    captions = []
    written = [names.text(label) for label in labels]
    if _fit(written) and not schedule.shuffles_classes:
        captions = [((c + 0.5) * length / classes, name) for c, name in enumerate(written)]
    return plots.probability(pen, shares, length, captions, f"{schedule.title} stream: class probabilities over time")
