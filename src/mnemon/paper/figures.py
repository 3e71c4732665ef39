"""The paper's figures from our records, as PNG and SVG. A figure whose runs are missing says so instead of being drawn.

Colours and line styles are the report's; every series differs in line style or place too. The same records give the same
SVG, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mnemon import files
from mnemon.experiments.metrics import confidence_interval, forgotten
from mnemon.experiments.records import Record
from mnemon.paper import cells, ranking, times
from mnemon.paper.cells import Cell, Row
from mnemon.paper.results import (
    BIAS_STREAM,
    SIZE_STREAMS,
    SIZES,
    Absent,
    Floats,
    Source,
    bias,
    matrices,
    row,
    size_accuracies,
)
from mnemon.render import names, style, svg
from mnemon.render.palette import Style, palette_of
from mnemon.streams.smooth import class_weights

COLOURS = re.findall(r"--s\d: (#[0-9a-f]{6})", style.LIGHT)
INK, MUTED, RULE = (re.findall(rf"--{name}: (#[0-9a-f]{{6}})", style.LIGHT)[0] for name in ("text", "muted", "rule"))
DPI = 110
FORGETFUL = ("fine-tune", "a-gem")  # they would leave the others no room


# --- Figure 1


def fig1a(source: Source) -> Any:
    """The mean logit of each task's classes after each task."""
    lines, runs = bias(source)
    figure, (ax,) = _sheet(3.5, 2.5)
    tasks = len(lines)
    x = np.arange(1, tasks + 1)
    for j in range(tasks):
        ax.plot(x[j:], lines[j:, j], color=MUTED, linewidth=1.1)
    ax.plot(x, np.diagonal(lines), color=COLOURS[1], linestyle=svg.DASHES[2], linewidth=1.2, marker="o", markersize=5)
    for j, height in enumerate(svg.apart(lines[-1], float(np.ptp(lines[np.isfinite(lines)])) * 0.07)):
        colour = COLOURS[1] if j == tasks - 1 else MUTED
        ax.annotate(
            f"task {j + 1}", (tasks, height), (7, 0), textcoords="offset points", va="center", color=colour, size=8
        )
    ax.set(xticks=x, xlabel="tasks learned", ylabel="mean logit", xlim=(0.8, tasks + 0.9))
    ax.grid(axis="y")
    ax.set_title(f"ER + softmax, {names.stream(BIAS_STREAM)}, {names.plural(runs, 'run')}")
    return figure


def fig1b(source: Source) -> Any:
    """Accuracy and forgetting of each task at the end: softmax against class means."""
    ways = (row("er", "softmax"), row("er", "ncm"), row("hybrid"))
    labels = ("ER + softmax", "ER + NCM", "hybrid + NCM")
    found = [matrices(source, Cell(1, way, BIAS_STREAM)) for way in ways]
    lacking = [label for label, there in zip(labels, found, strict=True) if there is None]
    if lacking:
        raise Absent(f"no record of {', '.join(lacking)} on {BIAS_STREAM}")
    figure, (ax,) = _sheet(3.5, 2.5)
    for place, (label, there, number) in enumerate(zip(labels, found, (1, 2, 0), strict=True)):
        assert there is not None
        kept = there[:, -1].mean(0)
        lost = np.maximum(forgotten(there).mean(0), 0)
        x = np.arange(1, len(kept) + 1) + (place - 1) * 0.28
        ax.bar(x, kept, 0.25, color=COLOURS[number], label=label)
        ax.bar(x[:-1], lost, 0.25, bottom=kept[:-1], color=COLOURS[number], alpha=0.22)
    ax.set(xticks=range(1, len(kept) + 1), xlabel="task", ylabel="accuracy, % (pale: forgotten)", ylim=(0, 100))
    ax.grid(axis="y")
    _legend(figure, ax, 3)
    return figure


# --- Figure 2


def fig2(source: Source) -> Any:
    """Which class the next sample may have, over 5000 samples of ten classes: Split and Smooth."""
    figure, axes = _sheet(7.0, 1.9, columns=2)
    classes, length = 10, 5000
    time = np.arange(1, length + 1)[::10]
    smooth = class_weights(classes, length, 0.5)[::10]
    for c in range(classes):
        colour, dash = COLOURS[c % 5], svg.DASHES[0 if c < 5 else 1]
        task = c // 2
        start, end = task * length / 5, (task + 1) * length / 5
        lift = 0.016 * (c % 2)  # the two classes of a task lie on one line
        axes[0].plot(
            [start, start, end, end], [0, 0.5 - lift, 0.5 - lift, 0], color=colour, linestyle=dash, linewidth=1.2
        )
        there = smooth[:, c] > 1e-3
        axes[1].plot(time[there], smooth[there, c], color=colour, linestyle=dash, linewidth=1.2)
        axes[1].annotate(
            f"{c}",
            ((c + 0.5) * length / classes, 1.0),
            xycoords=("data", "axes fraction"),
            ha="center",
            color=colour,
            size=8,
        )
    for task in range(5):
        text = f"{2 * task}, {2 * task + 1}"
        axes[0].annotate(text, ((task + 0.5) * length / 5, 0.53), ha="center", color=MUTED, size=8)
    for ax, title in zip(axes, ("Split", "Smooth"), strict=True):
        ax.set(ylim=(0, 1), xlim=(0, length), xlabel="sample of the stream")
        ax.set_title(title, pad=12)
        ax.xaxis.set_major_formatter(lambda value, _: names.thousands(round(value)))
    axes[0].set_ylabel("class probability")
    return figure


# --- Figure 3


def fig3(source: Source) -> Any:
    """Average Accuracy on the tasks learned so far, all methods that were run."""
    shown: dict[str, list[tuple[Row, Floats]]] = {}
    every: list[Record] = []
    for stream in cells.SPLIT_STREAMS:
        for way in cells.rows(1):
            cell = Cell(1, way, stream)
            found = source.library.of_cell(cell, source.seeds).records
            if found and way.method not in names.UPPER_BOUNDS:
                mine = matrices(source, cell)
                assert mine is not None
                shown.setdefault(stream, []).append((way, np.nanmean(mine, axis=2)))
                every += found.values()
    if not shown:
        raise Absent("no record on any Split stream")
    styles = palette_of(every)
    columns, rows = min(2, len(shown)), -(-len(shown) // 2)
    figure, axes = _sheet(3.9 * columns, 3.1 * rows, columns=columns, rows=rows)
    for ax, (stream, lines) in zip(axes, shown.items(), strict=False):
        labels = []
        for way, points in sorted(lines, key=lambda line: line[0].method == "hybrid"):
            look = _line(styles[way.method, way.loss, way.classifier])
            x = np.arange(1, points.shape[1] + 1)
            mean, strong = points.mean(0), way.method == "hybrid"
            ax.plot(x, mean, **look, linewidth=2.2 if strong else 1.2, marker="o", markersize=2.2)
            labels.append(Label(_name(way), float(x[-1]), float(mean[-1]), look["color"], strong, look["linestyle"]))
        ax.set_title(names.stream(stream))
        ax.set(xticks=x if len(x) <= 10 else x[4::5], xlabel="tasks learned", ylabel="accuracy, %")
        ax.set_ylim(_floor(lines), None)
        ax.grid(axis="y")
        _label(ax, [label for label in labels if label.y >= ax.get_ylim()[0]])
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    return figure


def _floor(lines: Sequence[tuple[Row, Floats]]) -> float:
    """Zero; where many methods crowd the top, what those that forget nearly all would take up is cut off."""
    ends = [float(points.mean(0).min()) for way, points in lines if way.method not in FORGETFUL]
    return max(0.0, min(ends) - 4) if len(ends) > 5 else 0.0


def _name(way: Row) -> str:
    return way.name.partition(" (")[0]


def _line(look: Style) -> dict[str, Any]:
    return {"color": COLOURS[look.colour], "linestyle": svg.DASHES[look.dash % len(svg.DASHES)]}


# --- Figure 4


def fig4(source: Source) -> Any:
    """Milliseconds a training step of each method, and seconds a test pass with softmax and with NCM."""
    found = [lines for stream in times.SHAPES if (lines := times.on_one_device(source.times, stream))]
    if not found:
        raise Absent("nothing was timed yet (times.jsonl)")
    figure, axes = _sheet(7.0, 2.9 * len(found), columns=2, rows=len(found), ratios=(3, 2))
    for number, lines in enumerate(found):
        first = next(iter(lines.values()))
        left, right = axes[2 * number : 2 * number + 2]
        steps = {names.METHODS[m]: lines[m]["step_ms"] for m in times.methods() if m in lines}
        _times(left, steps, "ER", "training, ms a step")
        left.set_title(f"images of {'×'.join(str(side) for side in first['shape'])}; {first['device']}", loc="left")
        tests = {
            f"{names.METHODS[m]} + {names.CLASSIFIERS.get(c, c)}": lines[m]["test_s"][c]
            for m, c in (("er", "softmax"), ("er", "ncm"), ("hybrid", "proxy"), ("hybrid", "ncm"))
            if m in lines and c in lines[m]["test_s"]
        }
        _times(right, tests, "ER + softmax", f"test, s for {names.thousands(first['tested'])} images")
    return figure


def _times(ax: Any, values: dict[str, float], usual: str, label: str) -> None:
    """A bar each, with its value and how many times the usual one it is."""
    ax.barh(range(len(values)), list(values.values()), 0.7, color=[COLOURS[0 if "hybrid" in n else 8] for n in values])
    for place, value in enumerate(values.values()):
        ratio = f"  ({value / values[usual]:.2f} ×)" if usual in values else ""
        shown = f"{value:.2f}" if value >= 1 else f"{value:.3f}"
        ax.annotate(f"{shown}{ratio}", (value, place), (3, 0), textcoords="offset points", va="center", size=7.5)
    ax.set_yticks(range(len(values)), list(values))
    ax.set(xlabel=f"{label}\n(in brackets: times {usual})", xlim=(0, max(values.values(), default=1) * 1.45))
    ax.invert_yaxis()


# --- Figure 5


def fig5(source: Source) -> Any:
    """Average Accuracy on validation samples against the size of the memory."""
    shown: dict[str, dict[str, list[tuple[int, list[float]]]]] = {}
    for stream in SIZE_STREAMS:
        for method in ("er", "hybrid"):
            found = [(size, list(size_accuracies(source, method, stream, size).values())) for size in SIZES]
            if all(values for _, values in found):
                shown.setdefault(stream, {})[method] = found
    if not shown:
        raise Absent("no stream has runs of ER or hybrid on validation samples at all of the memory sizes " + _sizes())
    figure, axes = _sheet(2.4 * len(shown) + 0.6, 2.4, columns=len(shown))
    for ax, (stream, lines) in zip(axes, shown.items(), strict=True):
        for method, found in lines.items():
            mean = [float(np.mean(values)) for _, values in found]
            half = [confidence_interval(values)[1] if len(values) > 1 else 0.0 for _, values in found]
            own = method == "hybrid"
            ax.errorbar(
                SIZES, mean, half, color=COLOURS[0 if own else 1], linestyle=svg.DASHES[0 if own else 1], capsize=2.5,
                marker="o" if own else "s", markersize=4, linewidth=1.6, label=names.METHODS[method],
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xticks(SIZES, [str(size) for size in SIZES])
        ax.minorticks_off()
        ax.set(xlabel="memory", ylim=(0, None))
        ax.set_title(names.stream(stream))
        ax.grid(axis="y")
    axes[0].set_ylabel("validation accuracy, %")
    axes[0].legend(frameon=False)
    return figure


def _sizes() -> str:
    return ", ".join(str(size) for size in SIZES)


# --- accuracy against cost


def ranking_figure(source: Source) -> Any:
    """Accuracy against the time of a training step, a panel for each stream whose network was timed."""
    shown = {stream: found for stream in ranking.STREAMS if len(found := _crowd(ranking.points(source, stream))) > 1}
    if not shown:
        raise Absent(
            "no stream has two methods that were run and timed beside ER (times.jsonl: `mnemon reproduce fig4`)"
        )
    columns, rows = min(2, len(shown)), -(-len(shown) // 2)
    figure, axes = _sheet(3.9 * columns, 3.1 * rows, columns=columns, rows=rows)
    most = max(point.cost for found in shown.values() for point in found)
    least = min(point.cost for found in shown.values() for point in found)
    for ax, (stream, found) in zip(axes, shown.items(), strict=False):
        _against_cost(ax, found, (least, most))
        ax.set_title(names.stream(stream))
        ax.set(xlabel="time of a training step, × ER's", ylabel="accuracy, %")
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    return figure


def _crowd(found: list[ranking.Point]) -> list[ranking.Point]:
    """Where many methods crowd the top, without those that forget nearly all."""
    others = [point for point in found if point.row.method not in FORGETFUL]
    return others if len(others) > 5 else found


def _against_cost(ax: Any, found: Sequence[ranking.Point], costs: tuple[float, float]) -> None:
    """A point with its interval for each method; names at the right, one under the other, each with a line to its point."""
    for point in found:
        colour = COLOURS[0] if point.best else COLOURS[8]
        ax.errorbar(
            point.cost, point.mean, point.half, color=colour, marker="o" if point.best else "s",
            markersize=5 if point.best else 3.5, linewidth=1, capsize=2, zorder=3 if point.best else 2,
        )  # fmt: skip
    front = sorted((point.cost, point.mean) for point in found if point.best)
    ax.plot(*zip(*front, strict=True), color=COLOURS[0], linewidth=0.8, linestyle=svg.DASHES[2], drawstyle="steps-post")
    low = min(point.mean - point.half for point in found)
    high = max(point.mean + point.half for point in found)
    margin = 0.06 * (high - low or 1.0)
    ax.set_ylim(low - margin, high + margin)
    ax.set_xscale("log")
    right = costs[1] * (costs[1] / costs[0]) ** 0.12
    ax.set_xlim(costs[0] / (costs[1] / costs[0]) ** 0.06 / 1.02, right * 1.02)
    _label(ax, [Label(_name(p.row), p.cost, p.mean, COLOURS[0] if p.best else MUTED, p.best) for p in found])
    ax.xaxis.set_major_locator(_ticks(costs))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.minorticks_off()
    ax.grid(axis="y")


def _ticks(costs: tuple[float, float]) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator(
        [tick for tick in (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100) if costs[0] / 1.2 <= tick <= costs[1] * 1.2]
    )


class Label(NamedTuple):
    """A name for a point."""

    text: str
    x: float
    y: float
    colour: str
    strong: bool = False
    dash: Any = "-"


def _label(ax: Any, labels: Sequence[Label]) -> None:
    """The names at the right, one under the other in the order of their points, each with a line to its point."""
    low, high = ax.get_ylim()
    gap = (high - low) / max(len(labels), 20)  # of two names
    heights = svg.apart([label.y for label in labels], gap, low + gap / 2, high - gap / 2)
    leader = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.45, "shrinkA": 1, "shrinkB": 3, "relpos": (0, 0.5)}
    for label, height in zip(labels, heights, strict=True):
        ax.annotate(
            label.text, (label.x, label.y), (1.03, height), textcoords=ax.get_yaxis_transform(), va="center",
            color=label.colour, size=7.5, weight="bold" if label.strong else "normal", annotation_clip=False,
            arrowprops=leader | {"color": label.colour, "linestyle": label.dash},
        )  # fmt: skip


# --- drawing

FIGURES: dict[str, Callable[[Source], Any]] = {
    "fig1a": fig1a,
    "fig1b": fig1b,
    "fig2": fig2,
    "fig3": fig3,
    "fig4": fig4,
    "fig5": fig5,
    "ranking": ranking_figure,
}


CAPTIONS = {
    "fig1a": "Mean logit of each task's classes after each task, ER on Split CIFAR-10; dots mark the task just learned.",
    "fig1b": "Accuracy on each task of Split CIFAR-10 at the end (solid), and what was forgotten of it (pale).",
    "fig2": "Class probability over 5000 samples of ten classes, Split and Smooth.",
    "fig3": "Average Accuracy on the tasks learned so far, names in the order of the last; where many methods crowd the top, "
    "fine-tune and A-GEM leave the picture below.",
    "fig4": "Time of a training step and of a test pass, each method alone on the same device.",
    "fig5": "Average Accuracy on validation samples against the size of the memory, five seeds.",
}
RANKING = (
    "Accuracy with its 95 % interval against the time of a training step beside ER's, measured on images of the stream's size "
    "with 100 classes. Blue: no other method is as cheap and better, or as good and cheaper. Testing is not part of the cost. "
    "Where many methods crowd the top, fine-tune and A-GEM are left out. Streams whose network was not timed "
    "(Split MNIST) are not in the picture."
)


def draw(name: str, source: Source) -> list[Path]:
    """Write OUT/figures/NAME.png and .svg. Raises `Absent` where the runs are missing."""
    import matplotlib

    looks = svg.STYLE | {
        "svg.hashsalt": f"mnemon {name}",
        "font.family": "sans-serif",
        "font.size": 8.5,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.labelsize": 8.5,
        "axes.titlesize": 9,
        "axes.edgecolor": RULE,
        "grid.color": RULE,
        "xtick.color": RULE,
        "ytick.color": RULE,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "legend.frameon": False,
    }
    paths = [source.out / "figures" / f"{name}.{ending}" for ending in ("png", "svg")]
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(looks)
        figure = FIGURES[name](source)
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        files.replace(paths[0], lambda part: figure.savefig(part, format="png", dpi=DPI, metadata={"Software": None}))
        files.replace(
            paths[1], lambda part: figure.savefig(part, format="svg", metadata={"Date": None, "Creator": None})
        )
    return paths


def _sheet(
    width: float, height: float, *, columns: int = 1, rows: int = 1, ratios: Sequence[float] | None = None
) -> tuple[Any, list[Any]]:
    """A figure of that many inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False, width_ratios=ratios)
    return figure, list(axes.flat)


def _legend(figure: Any, ax: Any, columns: int) -> None:
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=columns)
