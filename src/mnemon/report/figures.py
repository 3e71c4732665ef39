"""Which figures a stream gets and how each is read; what cannot be drawn is said in one line instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mnemon.experiments.metrics import forgotten
from mnemon.experiments.stats import estimate
from mnemon.render import names
from mnemon.render.svg import Floats, Pen
from mnemon.report import arrivals, plots
from mnemon.report.figure import Figure, Panel
from mnemon.report.groups import Group, Section, own
from mnemon.report.pairs import by_variant, standing
from mnemon.report.plots import Curve

MOST = 20  # groups in a figure
FEW = 8  # up to this many, all variants of a method are shown


def figures(section: Section, pen: Pen) -> Iterator[Figure]:
    shown = drawn_groups(section.groups)
    yield _curves(section, shown, pen)
    yield _tasks(section, shown, pen)
    yield _scores(section, pen)
    yield _confusions(section, shown, pen)
    yield arrivals.probability(section, pen)


def drawn_groups(groups: Sequence[Group]) -> list[Group]:
    """All of them where they are few; else one of each variant (`pairs.standing`): those with the method's own loss and
    classifier first, then the most accurate."""
    if len(groups) <= FEW:
        return list(groups)
    each = [found for variant in by_variant(groups).values() if (found := standing(variant))]
    chosen = sorted(each, key=lambda group: (_own(group), group.accuracy), reverse=True)[:MOST]
    return [group for group in groups if group in chosen]


def _own(group: Group) -> bool:
    """With the method's own loss and classifier."""
    return own(group.variant.method) in (None, group.variant[1:])


def _curves(section: Section, shown: Sequence[Group], pen: Pen) -> Figure:
    title = "Accuracy while learning"
    square = [g for g in shown if g.matrices.shape[1] > 1]
    if not square:
        return Figure("curves", title, "No curve: these runs were tested once, at the end of the stream.")
    lines, ends = [], []
    for group in shown:
        matrices = group.matrices
        if matrices.shape[1] > 1 or matrices.shape[2] == section.tasks:
            points = np.nanmean(matrices, axis=2)  # [runs, k]: over the tasks learned so far
            found = [e for k in range(points.shape[1]) if (e := estimate(points[:, k].tolist()))]
            half = None if found[0].half is None else np.array([e.half for e in found], float)
            lines.append(Curve(group.style, np.array([e.mean for e in found]), half, _samples(group)))
            ends.append((group, found[-1].mean))
    ends.sort(key=lambda end: -end[1])
    several = any(line.half is not None for line in lines)
    caption = (
        "Mean accuracy over the tasks learned so far, after each task (the paper’s Figure 3). A curve that stays high "
        "learns the new without losing the old."
    )
    if any(line.samples is not None for line in lines):
        caption = "Accuracy on the classes seen so far, while samples arrive; the area under the curve is in the table."
    if several:
        caption += " Bands are 95 % intervals over runs."
    if any(len(line.mean) == 1 for line in lines):
        caption += " Level lines are runs on the shuffled samples, tested once, at the end."
    label = f"{section.title}: accuracy while learning. " + "; ".join(
        f"{group.name} ends at {names.fixed(value, 1)} %" for group, value in ends
    )
    svg = plots.curves(pen, lines, section.tasks, label)
    legend = tuple((group, names.fixed(value, 1)) for group, value in ends)
    return Figure("curves", title, caption + _left_out(section, shown), (Panel("", svg),), legend)


def _samples(group: Group) -> Floats | None:
    """After how many samples the runs of a group were tested, where the stream is tested all along."""
    found = group.first["protocol"].get("evaluated")
    return np.array(found, float) if found and len(found) == group.matrices.shape[1] else None


def _left_out(section: Section, shown: Sequence[Group]) -> str:
    if len(shown) == len(section.groups):
        return ""
    how = "each method at its best settings, and the best of other losses and classifiers"
    return f" Drawn: {how}, {len(shown)} of {len(section.groups)}; the table has them all."


def _tasks(section: Section, shown: Sequence[Group], pen: Pen) -> Figure:
    title = "Accuracy of each task at the end"
    with_tasks = [g for g in shown if g.matrices.shape[2] > 1]
    if not with_tasks:
        return Figure("tasks", title, "No bars: the stream has no tasks to tell apart.")
    rows = []
    for group in with_tasks:
        matrices = group.matrices
        kept = matrices[:, -1].mean(0)
        lost = None
        if matrices.shape[1] > 1:
            lost = forgotten(matrices).mean(0)
        rows.append((group, kept, lost))
    top = max(
        float(np.max(kept + np.append(np.maximum(lost, 0), 0) if lost is not None else kept)) for _, kept, lost in rows
    )
    panels = []
    for group, kept, lost in rows:
        numbers = ", ".join(names.fixed(value, 0) for value in kept)
        label = f"{group.name}: accuracy on tasks 1 to {len(kept)} at the end: {numbers} %"
        if lost is not None:
            label += f"; forgotten: {', '.join(names.fixed(value, 0) for value in lost)} points"
        panels.append(Panel(group.name, plots.bars(pen, kept, lost, top, group.style, label), group))
    caption = "Accuracy on each task after the last one (solid, percent; the paper’s Figure 1b)."
    if any(lost is not None for _, _, lost in rows):
        caption += (
            " Pale is what was forgotten: the best accuracy the task ever had minus the one at the end. Tall pale bars on "
            "the left are catastrophic forgetting."
        )
    return Figure("tasks", title, caption, tuple(panels))


def _scores(section: Section, pen: Pen) -> Figure:
    title = "Mean score of each task"
    found = [(g, s) for g in section.groups if (s := _mean_scores(g)) is not None]
    if not found:
        why = (
            "The stream has no tasks to compare."
            if section.tasks < 2
            else "These runs have no details (details/RUN.json)."
        )
        return Figure("scores", title, f"No scores: {why[0].lower()}{why[1:]}")
    panels, notes = [], []
    # One of each kind, the ones the paper compares where they are there.
    for classifiers, favourites, what in (
        (("softmax",), ("er",), "mean logit"),
        (("ncm", "ncm-raw"), ("hybrid", "er"), "mean score 2 z·μ − ‖μ‖²"),
    ):
        kind = [(g, s) for g, s in found if g.first["classifier"] in classifiers]
        kind.sort(key=lambda pair: [pair[0].variant.method != name for name in favourites])
        if kind:
            group, means = kind[0]
            later = [k for k in range(1, len(means)) if np.isfinite(means[k, : k + 1]).all()]
            first = sum(int(np.argmax(means[k, : k + 1])) == k for k in later)
            note = f"{group.name}: the newest task scores highest {first} of {len(later)} times."
            notes.append(note)
            label = f"{what} of each task’s classes after each task; {note}"
            panels.append(Panel(f"{group.name}: {what}", plots.scores(pen, means, group.style, label), group))
    if not panels:
        return Figure("scores", title, "No scores: no run here has a softmax or an NCM classifier.")
    caption = (
        "The score a test sample gives to the classes of each task, averaged over all samples of the tasks learned "
        "(the paper’s Figure 1a). Each grey line is one task; dots mark the task just learned. Dots far above the grey "
        "lines mean that the classifier favours the newest classes whatever it is shown: the bias that makes softmax "
        "forget. "
    )
    return Figure("scores", title, caption + " ".join(notes), tuple(panels))


def _mean_scores(group: Group) -> Floats | None:
    """[k, j] averaged over runs; None without details or with fewer than two tasks."""
    every = [np.array(d["average_scores"], float) for d in group.details]
    every = [a for a in every if a.ndim == 2 and a.shape == every[0].shape and a.shape[0] == a.shape[1] > 1]
    if not every:
        return None
    stack = np.stack(every)
    known = np.isfinite(stack).sum(0)
    means = np.where(known > 0, np.nansum(stack, axis=0) / np.maximum(known, 1), np.nan)
    return means if np.isfinite(means).any() else None


def _confusions(section: Section, shown: Sequence[Group], pen: Pen) -> Figure:
    title = "Confusion matrices"
    found = []
    for group in shown:
        if not group.details:
            continue
        labels = group.details[0]["labels"]
        counts = sum(np.array(d["confusion"], float) for d in group.details if d["labels"] == labels)
        assert isinstance(counts, np.ndarray)
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        right = 100 * counts.trace() / max(counts.sum(), 1)
        label = f"{group.name}: confusion matrix of {len(labels)} classes, {names.fixed(right, 1)} % on the diagonal"
        found.append((group, labels, shares, label))
    if not found:
        return Figure("confusion", title, "No confusion matrices: these runs have no details (details/RUN.json).")
    # One scale for all panels. With a hundred classes even the diagonal is pale, so the root lifts small shares.
    full = max(float(shares.max()) for _, _, shares, _ in found) or 1.0
    many = max(len(labels) for _, labels, _, _ in found) > plots.LABELLED
    panels, ruled = [], False
    for group, labels, shares, label in found:
        ends = _neighbours(group.first["protocol"].get("tested", []), labels)
        ruled = ruled or bool(ends)
        strength = np.sqrt(shares / full) if many else shares / full
        panels.append(Panel(group.name, plots.confusion(pen, strength, labels, ends, label), group))
    caption = (
        "Rows are the true classes, columns the predicted ones, summed over runs; the stronger the blue, the larger "
        f"the share of the row (full blue: {names.fixed(100 * full, 0)} %{', on a root scale' if many else ''}). A clean "
        "diagonal is right; a full column is a class everything is taken for."
    )
    if ruled:
        caption += " Thin rules part the tasks."
    return Figure("confusion", title, caption, tuple(panels))


def _neighbours(tasks: Sequence[Sequence[Any]], labels: Sequence[Any]) -> list[int]:
    """Where to rule between tasks in the sorted order of labels; nowhere if tasks are many or not runs of it."""
    if not 2 <= len(tasks) <= 10 or [label for task in tasks for label in task] != list(labels):
        return []
    return [int(end) for end in np.cumsum([len(task) for task in tasks])[:-1]]
