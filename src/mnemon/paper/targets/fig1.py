"""Figure 1: the scores of each task's classes while ER learns, and what is left of each task at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mnemon.experiments.metrics import forgotten
from mnemon.paper import bias
from mnemon.paper.cells import Cell, row
from mnemon.paper.drawing import COLOURS, MUTED, sheet
from mnemon.paper.plan import Maker, Scope, TargetPlan, plan_cells
from mnemon.paper.results import Absent, Results
from mnemon.paper.targets.target import FigureTarget
from mnemon.render import names, svg

ROWS = {  # label → row of Table 1
    "ER + softmax": row("er", "softmax"),
    "ER + NCM": row("er", "ncm"),
    "hybrid + NCM": row("hybrid"),
}


class Figure1(FigureTarget):
    name = "fig1"
    captions: ClassVar = {
        "fig1a": "Mean logit of each task's classes after each task, ER on Split CIFAR-10; dots mark the task just learned.",
        "fig1b": "Accuracy on each task of Split CIFAR-10 at the end (solid), and what was forgotten of it (pale).",
    }

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        wanted = [Cell(1, each, bias.STREAM) for each in ROWS.values() if scope(each.method, bias.STREAM)]
        plan = plan_cells(self.name, wanted, results)
        if scope("er", bias.STREAM):
            plan.measurements = bias.without_scores(results)
            plan.measured_as = ("run", "again, for their scores")
        return plan

    def make(self, plan: TargetPlan, out: Path, maker: Maker) -> None:
        maker.run(plan.measurements, out / bias.AGAIN)

    def draw(self, figure: str, results: Results) -> Any:
        return _logits(results) if figure == "fig1a" else _tasks(results)


def _logits(results: Results) -> Any:
    """The mean logit of each task's classes after each task."""
    lines, runs = bias.mean_logits(results)
    figure, (ax,) = sheet(3.5, 2.5)
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
    ax.set_title(f"ER + softmax, {names.stream(bias.STREAM)}, {names.plural(runs, 'run')}")
    return figure


def _tasks(results: Results) -> Any:
    """Accuracy and forgetting of each task at the end: softmax against class means."""
    found = {label: results.of(Cell(1, each, bias.STREAM)).matrices for label, each in ROWS.items()}
    if absent := [label for label, there in found.items() if there is None]:
        raise Absent(f"no record of {', '.join(absent)} on {bias.STREAM}")
    figure, (ax,) = sheet(3.5, 2.5)
    for place, ((label, there), colour) in enumerate(zip(found.items(), (1, 2, 0), strict=True)):
        assert there is not None
        kept = there[:, -1].mean(0)
        lost = np.maximum(forgotten(there).mean(0), 0)
        x = np.arange(1, len(kept) + 1) + (place - 1) * 0.28
        ax.bar(x, kept, 0.25, color=COLOURS[colour], label=label)
        ax.bar(x[:-1], lost, 0.25, bottom=kept[:-1], color=COLOURS[colour], alpha=0.22)
    ax.set(xticks=range(1, len(kept) + 1), xlabel="task", ylabel="accuracy, % (pale: forgotten)", ylim=(0, 100))
    ax.grid(axis="y")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


TARGETS = (Figure1(),)
