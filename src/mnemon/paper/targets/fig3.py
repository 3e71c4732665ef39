"""Figure 3: Average Accuracy on the tasks learned so far, all methods that were run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from mnemon.experiments.record import Record
from mnemon.paper import cells
from mnemon.paper.cells import Cell, Row
from mnemon.paper.drawing import CROWD, FORGETFUL, PointLabel, label_points, line, panels
from mnemon.paper.plan import Scope, TargetPlan, plan_cells
from mnemon.paper.results import Absent, Results
from mnemon.paper.targets.target import FigureTarget
from mnemon.render import names
from mnemon.render.palette import palette_of
from mnemon.render.svg import Floats

Lines = list[tuple[Row, Floats]]  # row → [runs, k]


class Figure3(FigureTarget):
    name = "fig3"
    captions: ClassVar = {
        "fig3": "Average Accuracy on the tasks learned so far, names in the order of the last; where many methods crowd the "
        "top, fine-tune and A-GEM leave the picture below."
    }

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        wanted = (Cell(1, row, stream) for row in cells.online_rows() for stream in cells.SPLIT_STREAMS)
        return plan_cells(self.name, [cell for cell in wanted if scope(cell.row.method, cell.stream)], results)

    def draw(self, figure: str, results: Results) -> Any:
        shown: dict[str, Lines] = {}
        every: list[Record] = []
        for stream in cells.SPLIT_STREAMS:
            for row in cells.online_rows():
                found = results.of(Cell(1, row, stream))
                if found.matrices is not None:
                    shown.setdefault(stream, []).append((row, np.nanmean(found.matrices, axis=2)))
                    every += found.records.values()
        if not shown:
            raise Absent("no record on any Split stream")
        styles = palette_of(every)
        drawn, axes = panels(len(shown))
        for ax, (stream, lines) in zip(axes, shown.items(), strict=True):
            labels = []
            for row, points in sorted(lines, key=lambda each: each[0].method == "hybrid"):
                look = line(styles[row.variant])
                x = np.arange(1, points.shape[1] + 1)
                mean, strong = points.mean(0), row.method == "hybrid"
                ax.plot(x, mean, **look, linewidth=2.2 if strong else 1.2, marker="o", markersize=2.2)
                end = (float(x[-1]), float(mean[-1]))
                labels.append(PointLabel(row.short_name, *end, look["color"], strong, look["linestyle"]))
            ax.set_title(names.stream(stream))
            ax.set(xticks=x if len(x) <= 10 else x[4::5], xlabel="tasks learned", ylabel="accuracy, %")
            ax.set_ylim(_floor(lines), None)
            ax.grid(axis="y")
            label_points(ax, [label for label in labels if label.y >= ax.get_ylim()[0]])
        return drawn


def _floor(lines: Sequence[tuple[Row, Floats]]) -> float:
    """Zero; where many methods crowd the top, the part below them is cut off."""
    ends = [float(points.mean(0).min()) for row, points in lines if row.method not in FORGETFUL]
    return max(0.0, min(ends) - 4) if len(ends) > CROWD else 0.0


TARGETS = (Figure3(),)
