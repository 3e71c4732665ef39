"""The plots, one function each: plain arrays in, SVG out. What they mean is said in figures.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mnemon.render import names
from mnemon.render.confusion import Confusion
from mnemon.render.palette import Style
from mnemon.render.svg import DASHES, MUTED, TEXT, Floats, Margins, Pen, apart, ink

LABELLED = 20  # classes up to this many get a tick label each


class Curve(NamedTuple):
    """A curve over the tasks learned, or over `samples`; a single value is a level that holds all along."""

    style: Style
    mean: Floats
    half: Floats | None
    samples: Floats | None = None


def curves(pen: Pen, lines: Sequence[Curve], tasks: int, label: str) -> str:
    """Mean accuracy over the tasks learned so far, with its band; where there are `samples`, over these."""
    over_samples = [line.samples for line in lines if line.samples is not None]
    ticks = np.concatenate(over_samples) if over_samples else np.arange(1, tasks + 1)
    low, high = (0.0, float(np.max(ticks))) if over_samples else (1.0, float(tasks))

    def paint(ax: Any) -> None:
        # The accent is drawn last, on top of the others.
        for line in sorted(lines, key=lambda line: line.style.colour == 0):
            colour, dash = ink(line.style.colour), DASHES[line.style.dash % len(DASHES)]
            x = np.array([low, high]) if over_samples and line.samples is None else ticks
            x = x if line.samples is None else line.samples
            mean = np.broadcast_to(line.mean, x.shape)
            if line.half is not None:
                half = np.broadcast_to(line.half, x.shape)
                ax.fill_between(x, mean - half, mean + half, color=colour, alpha=0.14, linewidth=0)
            strong = line.style.colour == 0
            dots = "o" if 1 < len(line.mean) <= LABELLED else None
            ax.plot(
                x, mean, color=colour, linestyle=dash, linewidth=2.4 if strong else 1.5, marker=dots, markersize=3.2
            )
        _percent(ax, max(float(np.max(line.mean)) for line in lines))
        ax.set_ylabel("accuracy, %")
        ax.set_xlim(low - 0.02 * high, high + 0.02 * high)
        if not over_samples:
            ax.set_xticks(ticks if tasks <= 10 else ticks[4::5])
        ax.set_xlabel("samples learned" if over_samples else "tasks learned")

    return pen.draw(470, 262, paint, label=label, margins=Margins(left=42))


def bars(pen: Pen, kept: Floats, lost: Floats | None, top: float, style: Style, label: str) -> str:
    """One bar a task: solid what is still known, pale what was known once."""

    def paint(ax: Any) -> None:
        x, colour = np.arange(1, len(kept) + 1), ink(style.colour)
        ax.bar(x, kept, width=0.72, color=colour)
        if lost is not None:
            # A task known better now than ever before has nothing pale.
            ax.bar(x[:-1], np.maximum(lost, 0), bottom=kept[:-1], width=0.72, color=colour, alpha=0.24)
        if len(kept) <= 10:
            for place, value in zip(x, kept, strict=True):
                ax.annotate(
                    names.fixed(value, 0), (place, value), (0, 2), textcoords="offset points", ha="center", size=8.5
                )
        _percent(ax, top)
        ax.set_xlim(0.4, len(kept) + 0.6)
        ax.set_xticks(x if len(kept) <= 10 else x[4::5])
        ax.set_xlabel("task")

    return pen.draw(232, 150, paint, label=label, margins=Margins(left=28))


def scores(pen: Pen, lines: Floats, style: Style, label: str) -> str:
    """[k, j]: the mean score of task j's classes after task k; the task just learned is marked."""
    tasks = len(lines)

    def paint(ax: Any) -> None:
        x, colour = np.arange(1, tasks + 1), ink(style.colour)
        for j in range(tasks):
            ax.plot(x[j:], lines[j:, j], color=MUTED, linewidth=1.1, alpha=0.75)
        newest = np.diagonal(lines)
        ax.plot(x, newest, color=colour, linestyle=(0, (1.5, 2.5)), linewidth=1.2, marker="o", markersize=5.5)
        low, high = float(np.nanmin(lines)), float(np.nanmax(lines))
        margin = max(high - low, 1e-9) * 0.08
        ax.set_ylim(low - margin, high + margin)
        ax.set_xlim(0.8, tasks + (0.2 if tasks > 10 else 0.1 * tasks))
        ax.set_xticks(x if tasks <= 10 else x[4::5])
        ax.set_xlabel("tasks learned")
        ax.grid(axis="y")
        ax.spines["left"].set_visible(False)
        if tasks <= 10:
            known = [j for j in range(tasks) if np.isfinite(lines[-1, j])]
            for j, y in zip(known, apart(lines[-1, known], (high - low + 2 * margin) * 0.058), strict=True):
                ax.annotate(
                    f"task {j + 1}", (tasks, y), (7, 0), textcoords="offset points", va="center", size=8.5,
                    color=colour if j == tasks - 1 else MUTED, annotation_clip=False,
                )  # fmt: skip

    return pen.draw(430, 230, paint, label=label, margins=Margins(left=40, right=26))


def confusion(pen: Pen, strength: Floats, labels: Sequence[Any], ends: Sequence[int], label: str) -> str:
    """[true, predicted] from 0 (nothing) to 1 (full blue); a light rule at each of `ends`."""
    side = 190 + (0 if len(labels) <= 10 else 60)
    return Confusion(strength, labels, "in sorted order", LABELLED, 10, side, ends).draw(pen, label)


class Share(NamedTuple):
    """The probability of one class over a stretch of the stream."""

    time: Floats  # sample numbers
    probability: Floats


def probability(
    pen: Pen, classes: Sequence[Share], length: int, captions: Sequence[tuple[float, str]], label: str
) -> str:
    """Which class the next sample may have, at each time; `captions` stand above, at their sample number."""

    def paint(ax: Any) -> None:
        for number, share in enumerate(classes):
            # Neighbours take turns, so that where one class gives way to the next can be seen.
            colour = ink(0) if number % 2 == 0 else TEXT
            few = len(classes) <= LABELLED
            time, height = share.time[[0, *range(len(share.time)), -1]], [0, *share.probability, 0]  # down to the axis
            ax.fill(time, height, color=colour, alpha=0.16 if few else 0.07, linewidth=0)
            ax.plot(share.time, share.probability, color=colour, linewidth=0.9 if few else 0.5)
        for place, text in captions:
            ax.annotate(
                text, (place, 1), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points", ha="center",
                size=8.5, color=MUTED,
            )  # fmt: skip
        ax.set_ylim(0, 1)
        ax.set_xlim(0, length)
        ax.locator_params(axis="both", nbins=5)
        ax.set_xlabel("sample of the stream")
        ax.set_ylabel("class probability")
        ax.xaxis.set_major_formatter(lambda value, _: names.thousands(round(value)))

    return pen.draw(430, 190, paint, label=label, margins=Margins(left=42, top=20, right=16))


def _percent(ax: Any, top: float) -> None:
    """Accuracy from zero to the next round value above `top`."""
    step = next(s for s in (1, 2, 5, 10, 20, 25) if top <= 5 * s or s == 25)
    end = min(100.0, step * np.ceil(max(top, 0.5) * 1.001 / step))
    ax.set_ylim(0, end * 1.04)
    ax.set_yticks(np.arange(0, end + step / 2, step))
    ax.grid(axis="y")
    ax.spines["left"].set_visible(False)
