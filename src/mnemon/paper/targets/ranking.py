"""Which method for which stream: a table of accuracy, rank and cost, and a figure of accuracy against cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnemon.paper import cells, documents, ranking, times
from mnemon.paper.cells import Row
from mnemon.paper.comparison import NOTHING, ours
from mnemon.paper.drawing import COLOURS, CROWD, FORGETFUL, MUTED, PointLabel, label_points, panels
from mnemon.paper.plan import Maker, Scope, TargetPlan, plan_cells
from mnemon.paper.ranking import COST_STREAM, KINDS, STREAMS, Point, Ranks, cost, found, points
from mnemon.paper.results import LEAST, Absent, Results
from mnemon.paper.targets.fig4 import Figure4
from mnemon.paper.targets.target import Block, TableTarget, write_figure
from mnemon.render import names, svg
from mnemon.render.tables import Bold, Part, Table, headings

NOT_MEASURED = "not measured"
CAPTION = (
    "Accuracy with its 95 % interval against the time of a training step beside ER's, measured on images of the stream's size "
    "with 100 classes. Blue: no other method is as cheap and better, or as good and cheaper. Testing is not part of the cost. "
    "Where many methods crowd the top, fine-tune and A-GEM are left out. Streams whose network was not timed "
    "(Split MNIST) are not in the picture."
)
TICKS = (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)  # of the costs


class Ranking(TableTarget):
    name = "ranking"

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        """The methods of Tables 1 and 4 that learn from the stream, and their times."""
        every = [cell for number in (1, 4) for cell in cells.cells(number, scope.methods, scope.streams)]
        plan = plan_cells(self.name, [cell for cell in every if not cell.row.bound], results)
        timed = Figure4().plan(scope, results, device)
        plan.measurements, plan.measured_as, plan.measured_by = timed.measurements, timed.measured_as, timed.target
        return plan

    def make(self, plan: TargetPlan, out: Path, maker: Maker) -> None:
        Figure4().make(plan, out, maker)

    def write(self, results: Results) -> list[str]:
        return [*super().write(results), write_figure(results.out, self.name, lambda: draw(results))]

    def blocks(self) -> dict[str, Block]:
        return {**super().blocks(), "ranking-figure": _figure}

    def table(self, results: Results) -> Table:
        """Accuracy on each stream that has records, mean ranks, cost, memory."""
        here = ranking.streams(results)
        ranked = {kind: known for kind in KINDS if (known := ranking.ranks(results, kind)).streams}
        columns = ["method", *map(names.stream, here), *(_rank_head(kind, known) for kind, known in ranked.items())]
        columns += ["step, × ER's", "test pass, × ER's", "kept beside an image"]
        accuracy = {stream: _column(results, stream) for stream in here}
        lines = []
        for row in cells.online_rows():
            line = [row.label, *(accuracy[stream][row] for stream in here)]
            line += [_rank(results, row, known) for known in ranked.values()]
            line += [NOT_MEASURED if ratio is None else names.fixed(ratio) for ratio in cost(results, row)]
            extra = ranking.extra_bytes(row)
            line.append("no memory" if extra is None else f"{names.thousands(extra)} bytes" if extra else NOTHING)
            lines.append(line)
        part = Part(headings(*columns), lines)
        return Table(self.name, "Which method for which stream", [part], _notes(results, here))


def _column(results: Results, stream: str) -> dict[Row, str]:
    """The best in bold; ≈ beside those that are not significantly different from it."""
    there = {row: found(results, row, stream) for row in cells.online_rows()}
    means = {row: runs.estimate.mean for row, runs in there.items() if runs.estimate}
    written = {row: ours(runs) for row, runs in there.items()}
    if len(means) < 2:
        return written
    best = max(means, key=lambda row: means[row])
    for row, mean in means.items():
        if names.fixed(mean) == names.fixed(means[best]):
            written[row] = Bold(written[row])
        elif _alike(results, row, best, stream):
            written[row] += " ≈"
    return written


def _alike(results: Results, row: Row, best: Row, stream: str) -> bool:
    try:
        return results.difference(row, best, stream, ranking.cell(row, stream).table).sign >= 0
    except Absent:
        return False


def _rank_head(kind: str, known: Ranks) -> str:
    return f"mean rank on {kind}" + (f" (of {len(known.of)})" if known.of else "")


def _rank(results: Results, row: Row, known: Ranks) -> str:
    if row in known.of:
        return names.fixed(known.of[row], 1)
    run = sum(len(found(results, row, stream).values) >= LEAST for stream in known.streams)
    return f"– ({run} of {len(known.streams)} run)"


def _notes(results: Results, here: Sequence[str]) -> list[str]:
    notes = [
        "Percent, mean ± half-width of the 95 % interval over 15 seeds (n = … where fewer). Bold: the best of a column; ≈ no "
        "significant difference from the best: the 95 % interval of the difference over common seeds includes zero. † not in "
        "the paper.",
        "A rank is by accuracy, 1 the best, and its mean over the streams of a kind that more than half of the methods of "
        "that kind were run on; it is given to the methods that were run on all of these, and counted among them alone. The "
        "others say how many they were run on.",
    ]
    lines = times.on_one_device(results.times, COST_STREAM)
    where = f" ({next(iter(lines.values()))['device']})" if lines else ""
    notes.append(
        f"Cost: images of 3×32×32, 100 classes, memory of 1000{where}; a step beside ER's, a test pass beside ER's with "
        "softmax. Kept beside an image: what a method stores for each sample of its memory there, besides bytes of pixels "
        "and a label."
    )
    if absent := [names.stream(stream) for stream in STREAMS if stream not in here]:
        notes.append(f"No records of: {'; '.join(absent)}.")
    return notes


# --- the figure


def _figure(results: Results, beside: Path) -> str:
    return documents.picture(results.out / "figures", "ranking", CAPTION, beside)


def draw(results: Results) -> Any:
    """Accuracy against the time of a training step, a panel for each stream whose network was timed."""
    shown = {stream: there for stream in STREAMS if len(there := without_crowding(points(results, stream))) > 1}
    if not shown:
        raise Absent(
            "no stream has two methods that were run and timed beside ER (times.jsonl: `mnemon reproduce fig4`)"
        )
    figure, axes = panels(len(shown))
    every = [point.cost for there in shown.values() for point in there]
    for ax, (stream, there) in zip(axes, shown.items(), strict=True):
        _against_cost(ax, there, (min(every), max(every)))
        ax.set_title(names.stream(stream))
        ax.set(xlabel="time of a training step, × ER's", ylabel="accuracy, %")
    return figure


def without_crowding(there: list[Point]) -> list[Point]:
    """Where many methods crowd the top, without those that forget nearly all."""
    others = [point for point in there if point.row.method not in FORGETFUL]
    return others if len(others) > CROWD else there


def _against_cost(ax: Any, there: Sequence[Point], costs: tuple[float, float]) -> None:
    """A point with its interval for each method; names at the right, one under the other, each with a line to its point."""
    from matplotlib.ticker import FixedLocator

    low, high = float("inf"), float("-inf")
    for point in there:
        mean, half = point.accuracy.mean, point.accuracy.half or 0.0
        low, high = min(low, mean - half), max(high, mean + half)
        ax.errorbar(
            point.cost, mean, half, color=COLOURS[0 if point.best else 8], marker="o" if point.best else "s",
            markersize=5 if point.best else 3.5, linewidth=1, capsize=2, zorder=3 if point.best else 2,
        )  # fmt: skip
    front = sorted((point.cost, point.accuracy.mean) for point in there if point.best)
    ax.plot(*zip(*front, strict=True), color=COLOURS[0], linewidth=0.8, linestyle=svg.DASHES[2], drawstyle="steps-post")
    margin = 0.06 * (high - low or 1.0)
    ax.set_ylim(low - margin, high + margin)
    ax.set_xscale("log")
    right = costs[1] * (costs[1] / costs[0]) ** 0.12
    ax.set_xlim(costs[0] / (costs[1] / costs[0]) ** 0.06 / 1.02, right * 1.02)
    labels = [
        PointLabel(p.row.short_name, p.cost, p.accuracy.mean, COLOURS[0] if p.best else MUTED, p.best) for p in there
    ]
    label_points(ax, labels)
    ax.xaxis.set_major_locator(FixedLocator([t for t in TICKS if costs[0] / 1.2 <= t <= costs[1] * 1.2]))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.minorticks_off()
    ax.grid(axis="y")


TARGETS = (Ranking(),)
