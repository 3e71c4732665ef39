"""Figure 4: the time of a training step of each method, and of a test pass with softmax and with NCM."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

from mnemon.paper import json_lines, times
from mnemon.paper.drawing import COLOURS, sheet
from mnemon.paper.plan import Maker, Scope, TargetPlan
from mnemon.paper.results import Absent, Results
from mnemon.paper.targets.target import FigureTarget
from mnemon.render import names
from mnemon.runtime.device import Engine, choose_device

logger = logging.getLogger(__name__)
TESTS = (("er", "softmax"), ("er", "ncm"), ("hybrid", "proxy"), ("hybrid", "ncm"))  # method, classifier


class Figure4(FigureTarget):
    name = "fig4"
    captions: ClassVar = {"fig4": "Time of a training step and of a test pass, each method alone on the same device."}

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        """Times of two devices cannot be compared: those of one device are enough, or else all are measured on this one."""
        wanted = [(m, s) for s in times.SHAPES for m in times.methods() if scope(m, s)]
        on: dict[str, set[tuple[str, str]]] = {}
        for line in results.times:
            on.setdefault(line["device"], set()).add((line["method"], line["stream"]))
        known = next((timed for timed in on.values() if timed >= set(wanted)), on.get(device, set()))
        plan = TargetPlan(self.name, "times", len(wanted), sum(pair in known for pair in wanted))
        plan.measurements = [pair for pair in wanted if pair not in known]
        plan.measured_as = ("time", "to take")
        return plan

    def make(self, plan: TargetPlan, out: Path, maker: Maker) -> None:
        where = choose_device(maker.device)
        steps = times.STEPS.get(where.type, times.STEPS["cpu"]) if maker.steps is None else maker.steps
        with Engine(where).in_use():
            for method, stream in plan.measurements:
                tested = 10_000 if where.type == "cuda" else 1000
                setting = times.Setting(stream, times.SHAPES[stream], steps=steps, tested=tested)
                line = times.measure(method, setting, where)
                logger.info(f"{method}, images of {times.images(line)}: {names.fixed(line['step_ms'])} ms a step")
                json_lines.add(out / times.FILE, line, times.SAME)

    def draw(self, figure: str, results: Results) -> Any:
        found = [lines for stream in times.SHAPES if (lines := times.on_one_device(results.times, stream))]
        if not found:
            raise Absent("nothing was timed yet (times.jsonl)")
        drawn, axes = sheet(7.0, 2.9 * len(found), columns=2, rows=len(found), ratios=(3, 2))
        for number, lines in enumerate(found):
            first = next(iter(lines.values()))
            left, right = axes[2 * number : 2 * number + 2]
            steps = {names.METHODS[m]: lines[m]["step_ms"] for m in times.methods() if m in lines}
            _bars(left, steps, "ER", "training, ms a step")
            left.set_title(f"images of {times.images(first)}; {first['device']}", loc="left")
            tests = {
                f"{names.METHODS[m]} + {names.CLASSIFIERS.get(c, c)}": lines[m]["test_s"][c]
                for m, c in TESTS
                if m in lines and c in lines[m]["test_s"]
            }
            _bars(right, tests, "ER + softmax", f"test, s for {names.thousands(first['tested'])} images")
        return drawn


def _bars(ax: Any, values: dict[str, float], usual: str, label: str) -> None:
    """A bar each, with its value and its ratio to the usual one."""
    ax.barh(range(len(values)), list(values.values()), 0.7, color=[COLOURS[0 if "hybrid" in n else 8] for n in values])
    for place, value in enumerate(values.values()):
        ratio = f"  ({names.fixed(value / values[usual])} ×)" if usual in values else ""
        shown = names.fixed(value, 2 if value >= 1 else 3)
        ax.annotate(f"{shown}{ratio}", (value, place), (3, 0), textcoords="offset points", va="center", size=7.5)
    ax.set_yticks(range(len(values)), list(values))
    ax.set(xlabel=f"{label}\n(in brackets: times {usual})", xlim=(0, max(values.values(), default=1) * 1.45))
    ax.invert_yaxis()


TARGETS = (Figure4(),)
