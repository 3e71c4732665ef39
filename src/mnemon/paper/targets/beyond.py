"""Learners beyond the paper: a table for each stream, two pictures of accuracy against cost, and the ablation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.experiments.stats import estimate, paired_difference
from mnemon.paper import beyond, beyond_readings, documents, patches_ablation, ranking, searches
from mnemon.paper.beyond import PANELS, PAPER, STREAMS, TRACKS
from mnemon.paper.beyond_readings import Point, Reading
from mnemon.paper.comparison import NOT_RUN, NOTHING, with_runs
from mnemon.paper.drawing import COLOURS, MUTED, PointLabel, label_points, panels
from mnemon.paper.plan import Scope, TargetPlan, can_run, each_training_once, missing
from mnemon.paper.results import Absent, Results
from mnemon.paper.targets.target import Block, Target, write_figure
from mnemon.render import markup, names, svg
from mnemon.render.tables import Bold, Heading, Part, Table, headings

NOT_SEARCHED = "not searched"
COLUMNS = headings("track", "learner", "read-out", "accuracy", "forgotten", "M mult.", "MB", "seconds")
TITLE = "Learners beyond the paper"

# picture → the cost, and what its axis says: millions
PICTURES = {
    "beyond-cost": ("multiplications", "multiplications per sample, millions"),
    "beyond-state": ("state_bytes", "state, MB"),
}
CAPTIONS = {
    "beyond-cost": "Accuracy with its 95 % interval against the multiplications per new sample of the stream, replay and "
    "backward pass included.",
    "beyond-state": "Accuracy with its 95 % interval against the bytes of the learner's state: network or filters, averaged "
    "copy, memory, statistics.",
}
LEGEND = (
    "Letters are tracks, grey squares rows of the tables that reproduce the paper. The dotted line is the Pareto front: no "
    "other learner of the picture is as cheap and better, or as good and cheaper; i.i.d. online, which does not learn from the "
    "stream, takes no part. A row is read as validation chose."
)
LOOKS = {PAPER: (8, "s"), "A": (0, "o"), "A+": (4, "v"), "B": (2, "D"), "C": (1, "^")}  # track → colour, marker


class Beyond(Target):
    name = "beyond"

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        """The rows, the paper's rows beside them, and the ablation of the patches."""
        plan = TargetPlan(self.name, "numbers")
        streams = [s for s in (*STREAMS, *beyond.ALSO) if (s in scope.streams if scope.streams else s in STREAMS)]
        rows = [row for row in beyond.known_rows() if not scope.methods or row.method in scope.methods]
        plan.searches = [command for command, s in beyond.searches(rows, streams).items() if can_run(s)]
        for row, stream in ((row, stream) for stream in streams for row in rows if row.on(stream)):
            found = beyond_readings.of_row(results, row, stream)
            plan.of += len(found)
            plan.there += sum(len(reading.runs.records) == len(results.seeds) for reading in found)
            lacking = {seed for reading in found for seed in results.seeds if seed not in reading.runs.records}
            if found[0].searched:
                plan.need(row.spec(stream, seed) for seed in sorted(lacking))
        beside = [ranking.cell(each, stream) for stream in streams for each in beyond_readings.BESIDE]
        beside = [cell for cell in beside if scope(cell.row.method, cell.stream)]
        plan.of += len(beside)
        plan.there += sum(len(results.of(cell).records) == len(results.seeds) for cell in beside)
        plan.need(missing(beside, results))
        self._plan_ablation(plan, scope, results)
        return plan

    def _plan_ablation(self, plan: TargetPlan, scope: Scope, results: Results) -> None:
        """Lines that share a training have it made once."""
        absent = []
        for each in patches_ablation.known_lines():
            for stream in (s for s in patches_ablation.STREAMS if scope(each.spec(s, 0).method, s)):
                there = patches_ablation.validated(results, each, stream)
                plan.of += 1
                plan.there += len(there) == len(patches_ablation.SEEDS)
                absent += [each.spec(stream, seed) for seed in patches_ablation.SEEDS if seed not in there]
        plan.need(each_training_once(absent))

    def write(self, results: Results) -> list[str]:
        """The tables, and OUT/figures/beyond-*.png and .svg."""
        figures = [write_figure(results.out, name, partial(draw, name, results)) for name in PICTURES]
        return [self.write_tables(results), *figures]

    def write_tables(self, results: Results) -> str:
        """OUT/tables/beyond.md and .tex: a table for each stream, and the ablation."""
        tables, path = [*self.tables(results), ablation(results)], results.out / "tables" / f"{self.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, f"# {TITLE}\n\n{_markdown(tables, level=2)}".encode())
        latex = [markup.latex(table, f"mnemon reproduce {self.name}") for table in tables]
        files.write(path.with_suffix(".tex"), "\n".join(latex).encode())
        return f"{self.name}: {path} and .tex"

    def tables(self, results: Results) -> list[Table]:
        """A table for each stream: all rows, run or not."""
        streams = dict.fromkeys((*STREAMS, *beyond_readings.shown_streams(results)))
        return [stream_table(stream, beyond_readings.readings(results, stream)) for stream in streams]

    def blocks(self) -> dict[str, Block]:
        return {
            self.name: _block,
            "beyond-figures": _figures,
            "beyond-ablation": lambda results, _: markup.markdown(ablation(results)),
            "beyond-shrinkage": lambda results, _: markup.markdown(shrinkage(results)),
            "beyond-searches": lambda results, _: searches.markdown(results.out, of_rows=True),
        }


# --- the tables


def stream_table(stream: str, found: Sequence[Reading]) -> Table:
    """The rows on one stream."""
    best = beyond_readings.best_of_tracks(found)
    rows = [_line(reading, any(reading is other for other in best)) for reading in found]
    return Table(f"beyond-{stream}", names.stream(stream), [Part(COLUMNS, rows)], _notes(found))


def _line(reading: Reading, best: bool) -> list[str]:
    mark = " *" if reading.chosen and reading.choices > 1 else ""
    line = [reading.track, reading.label, reading.read_out + mark]
    if reading.accuracy is None:
        return [*line, NOT_RUN if reading.searched else NOT_SEARCHED, *[NOTHING] * 4]
    accuracy, lost, seconds = with_runs(reading.accuracy), reading.forgetting, reading.seconds
    products, state = reading.cost
    return [
        *line,
        Bold(accuracy) if best else accuracy,
        NOTHING if lost is None else names.fixed(lost.mean, 1),
        _millions(products),
        _millions(state),
        NOTHING if seconds is None else names.seconds(seconds),
    ]


def _millions(value: int | None) -> str:
    """With three digits, or all before the point."""
    if value is None:
        return NOTHING
    millions = value / 1e6
    return names.thousands(round(millions)) if millions >= 100 else f"{millions:.{2 if millions < 10 else 1}f}"


def _notes(found: Sequence[Reading]) -> list[str]:
    notes = []
    if over := beyond_readings.over_budget(found):
        notes.append(f"Above the budget of track B: {', '.join(reading.label for reading in over)}.")
    if any(reading.choices > 1 for reading in found):
        notes.append("* the read-out that validation chose.")
    return notes


def general_notes() -> list[str]:
    """What holds for the tables of all streams."""
    notes = [
        "Percent on test images, mean ± half-width of the 95 % interval over 15 seeds (n = … where fewer). Bold: the best of a "
        "track, of what validation chose. Forgotten: Average Forgetting, on Split streams. M mult.: millions of "
        "multiplications per new sample of the stream, replay and backward pass included. MB: the learner's whole state, in "
        "millions of bytes. Seconds: of a run, testing included, on the device and beside the other runs it was made with. "
        "– not stated by the records, or not defined.",
        "Tracks: "
        + "; ".join(f"{track}: {what}" for track, what in TRACKS.items())
        + f"; {PAPER}: a row of the tables that reproduce the paper.",
    ]
    if unknown := [row.name for row in beyond.ROWS if row.unknown()]:
        notes.append(f"This version cannot make: {', '.join(unknown)}.")
    return notes


def _markdown(tables: Iterable[Table], level: int) -> str:
    """The tables under headings, and the notes on all of them."""
    parts = [f"{'#' * level} {table.title}\n\n{markup.markdown(table)}" for table in tables]
    return "\n".join([*parts, "\n\n".join(general_notes())]) + "\n"


def _block(results: Results, _: Path) -> str:
    """The tables of the streams that a row was run on, without the read-outs that were not."""
    tables, absent = [], []
    for stream in (*STREAMS, *beyond.ALSO):
        found = beyond_readings.readings(results, stream)
        run = [reading for reading in found if reading.accuracy]
        if any(reading.track != PAPER for reading in run):
            tables.append(stream_table(stream, run))
            lacking = dict.fromkeys(f"{r.track} {r.label}" for r in found if not r.accuracy and r.track != PAPER)
            absent += [f"{names.stream(stream)}: {', '.join(lacking)}"] * bool(lacking)
        elif stream in STREAMS:
            absent.append(f"{names.stream(stream)}: every row")
    not_run = f"\nNot run: {'; '.join(absent)}.\n" if absent else ""
    return _markdown(tables, level=3) + not_run


def ablation(results: Results) -> Table:
    """What each part of the patches is worth, on validation samples."""
    rows, before = [], ""
    for each in patches_ablation.known_lines():
        found = [
            estimate(patches_ablation.validated(results, each, stream).values()) for stream in patches_ablation.STREAMS
        ]
        texts = [NOT_RUN if one is None else one.text() for one in found]
        rows.append(["" if each.changed == before else each.changed, each.label, *texts])
        before = each.changed
    seeds = names.ranges(patches_ablation.SEEDS)
    notes = [
        f"Percent on validation samples, mean ± half-width of the 95 % interval over seeds {seeds}. One thing is changed at a "
        f"time; the others: {patches_ablation.FILTERS} filters from the first images, the image and its mirror image, the "
        "square root of the features, α 0.5, a dictionary from 1,000 images, a covariance shared by all classes, λ 0.0001."
    ]
    columns = headings("changed", "to", *map(names.stream, patches_ablation.STREAMS))
    return Table(
        "beyond-ablation", "Patches and a streaming Gaussian classifier: ablation", [Part(columns, rows)], notes
    )


def shrinkage(results: Results) -> Table:
    """Many filters on a short stream, read with more and more shrinkage; the first is that of the rows."""
    columns, rows = [Heading("λ")], list[list[str]]()
    for filters, lines in patches_ablation.SHRINKAGE.items():
        columns += [Heading(filters, what) for what in ("accuracy", "difference")]
        rows = rows or [[line.label] for line in lines]
        each = [patches_ablation.validated(results, line, patches_ablation.SHORT_STREAM) for line in lines]
        for row, values in zip(rows, each, strict=True):
            found, gain = estimate(values.values()), paired_difference(values, each[0])
            row += [NOT_RUN, NOTHING] if found is None or gain is None else [found.text(), gain.text(signed=True)]
        rows[0][-1] = NOTHING
    stream, seeds = names.stream(patches_ablation.SHORT_STREAM), names.ranges(patches_ablation.SEEDS)
    notes = [
        f"{stream}, percent on validation samples, mean ± half-width of the 95 % interval over seeds {seeds}; the same "
        "trainings at each λ, and their paired differences to the first."
    ]
    return Table("beyond-shrinkage", "Many filters on a short stream, by shrinkage", [Part(columns, rows)], notes)


# --- the pictures


def _figures(results: Results, beside: Path) -> str:
    shown = [documents.picture(results.out / "figures", name, CAPTIONS[name], beside) for name in PICTURES]
    return "\n".join([*dict.fromkeys(shown), f"{LEGEND}\n"])


def draw(picture: str, results: Results) -> Any:
    """Accuracy against a cost, a panel for each stream."""
    cost, label = PICTURES[picture]
    shown = {
        s: there for s in PANELS if len(there := beyond_readings.points(beyond_readings.readings(results, s), cost)) > 1
    }
    if not shown:
        raise Absent(f"no stream has two learners whose records state {cost}")
    figure, axes = panels(len(shown), 4.6, 3.4)
    for ax, (stream, there) in zip(axes, shown.items(), strict=True):
        _panel(ax, [point._replace(cost=point.cost / 1e6) for point in there])
        ax.set_title(names.stream(stream))
        ax.set(xlabel=label, ylabel="accuracy, %")
    return figure


def _panel(ax: Any, there: Sequence[Point]) -> None:
    """A point with its interval for each learner, the front as steps, names at the right."""
    from matplotlib.ticker import LogLocator

    for point in there:
        colour, marker = LOOKS[point.reading.track]
        ax.errorbar(
            point.cost, point.accuracy.mean, point.accuracy.half or 0.0, color=COLOURS[colour], marker=marker,
            markersize=5, linewidth=1, capsize=2, zorder=3,
        )  # fmt: skip
    best = sorted((point.cost, point.accuracy.mean) for point in there if point.best)
    ax.set_xscale("log")
    ax.plot(
        *zip(*best, strict=True), color=MUTED, linewidth=0.9, linestyle=svg.DASHES[2], drawstyle="steps-post", zorder=1
    )
    ax.margins(x=0.06, y=0.08)
    ax.set_xlim(*_at_least_a_decade(*ax.get_xlim()))
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    ax.minorticks_off()
    ax.grid(axis="y")
    label_points(
        ax,
        [
            PointLabel(p.reading.title, p.cost, p.accuracy.mean, COLOURS[LOOKS[p.reading.track][0]], p.best)
            for p in there
        ],
    )


def _at_least_a_decade(low: float, high: float) -> tuple[float, float]:
    """The limits of a logarithmic axis, widened to both sides: within a few percent its ticks would say nothing."""
    widen = max(1.0, math.sqrt(10 * low / high))
    return low / widen, high * widen


TARGETS = (Beyond(),)
