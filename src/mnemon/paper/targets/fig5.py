"""Figure 5: Average Accuracy on validation samples against the size of the memory."""

from __future__ import annotations

from typing import Any, ClassVar

from mnemon.experiments.stats import Estimate, estimate
from mnemon.paper import memory_sizes
from mnemon.paper.drawing import COLOURS, sheet
from mnemon.paper.memory_sizes import METHODS, SEEDS, SIZES, STREAMS
from mnemon.paper.plan import Scope, TargetPlan
from mnemon.paper.results import Absent, Results
from mnemon.paper.targets.target import FigureTarget
from mnemon.render import names, svg


class Figure5(FigureTarget):
    name = "fig5"
    captions: ClassVar = {"fig5": "Average Accuracy on validation samples against the size of the memory, five seeds."}

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        plan = TargetPlan(self.name, "points")
        for method, stream in ((m, s) for s in STREAMS for m in METHODS if scope(m, s)):
            for size in SIZES:
                found = memory_sizes.accuracies(results, method, stream, size)
                plan.need(memory_sizes.spec(method, stream, size, seed) for seed in SEEDS if seed not in found)
                plan.of += 1
                plan.there += len(found) == len(SEEDS)
        return plan

    def draw(self, figure: str, results: Results) -> Any:
        shown: dict[str, dict[str, list[Estimate]]] = {}
        for stream in STREAMS:
            for method in METHODS:
                accuracies = (memory_sizes.accuracies(results, method, stream, size).values() for size in SIZES)
                found = [point for values in accuracies if (point := estimate(values))]
                if len(found) == len(SIZES):
                    shown.setdefault(stream, {})[method] = found
        if not shown:
            sizes = ", ".join(str(size) for size in SIZES)
            raise Absent(f"no stream has runs of ER or hybrid on validation samples at all of the memory sizes {sizes}")
        drawn, axes = sheet(2.4 * len(shown) + 0.6, 2.4, columns=len(shown))
        for ax, (stream, lines) in zip(axes, shown.items(), strict=True):
            for method, found in lines.items():
                mean, half = [point.mean for point in found], [point.half or 0.0 for point in found]
                hybrid = method == "hybrid"
                ax.errorbar(
                    SIZES, mean, half, color=COLOURS[0 if hybrid else 1], linestyle=svg.DASHES[0 if hybrid else 1],
                    capsize=2.5, marker="o" if hybrid else "s", markersize=4, linewidth=1.6, label=names.METHODS[method],
                )  # fmt: skip
            ax.set_xscale("log")
            ax.set_xticks(SIZES, [str(size) for size in SIZES])
            ax.minorticks_off()
            ax.set(xlabel="memory", ylim=(0, None))
            ax.set_title(names.stream(stream))
            ax.grid(axis="y")
        axes[0].set_ylabel("validation accuracy, %")
        axes[0].legend(frameon=False)
        return drawn


TARGETS = (Figure5(),)
