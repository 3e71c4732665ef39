"""Figure 2: which class the next sample may have, on a Split and on a Smooth stream. It needs no runs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mnemon.paper.drawing import COLOURS, MUTED, sheet
from mnemon.paper.plan import Scope, TargetPlan
from mnemon.paper.results import Results
from mnemon.paper.targets.target import FigureTarget
from mnemon.render import names, svg
from mnemon.streams.kinds.smooth import class_weights

CLASSES, LENGTH = 10, 5000


class Figure2(FigureTarget):
    name = "fig2"
    captions: ClassVar = {"fig2": "Class probability over 5000 samples of ten classes, Split and Smooth."}

    def plan(self, scope: Scope, results: Results, device: str) -> TargetPlan:
        return TargetPlan(self.name, "streams", 2, 2)

    def draw(self, figure: str, results: Results) -> Any:
        drawn, axes = sheet(7.0, 1.9, columns=2)
        time = np.arange(1, LENGTH + 1)[::10]
        smooth = class_weights(CLASSES, LENGTH, 0.5)[::10]
        for c in range(CLASSES):
            look = {"color": COLOURS[c % 5], "linestyle": svg.DASHES[0 if c < 5 else 1], "linewidth": 1.2}
            task = c // 2
            start, end = task * LENGTH / 5, (task + 1) * LENGTH / 5
            lift = 0.016 * (c % 2)  # the two classes of a task lie on one line
            axes[0].plot([start, start, end, end], [0, 0.5 - lift, 0.5 - lift, 0], **look)
            there = smooth[:, c] > 1e-3
            axes[1].plot(time[there], smooth[there, c], **look)
            middle = ((c + 0.5) * LENGTH / CLASSES, 1.0)
            axes[1].annotate(
                f"{c}", middle, xycoords=("data", "axes fraction"), ha="center", color=look["color"], size=8
            )
        for task in range(5):
            text = f"{2 * task}, {2 * task + 1}"
            axes[0].annotate(text, ((task + 0.5) * LENGTH / 5, 0.53), ha="center", color=MUTED, size=8)
        for ax, title in zip(axes, ("Split", "Smooth"), strict=True):
            ax.set(ylim=(0, 1), xlim=(0, LENGTH), xlabel="sample of the stream")
            ax.set_title(title, pad=12)
            ax.xaxis.set_major_formatter(lambda value, _: names.thousands(round(value)))
        axes[0].set_ylabel("class probability")
        return drawn


TARGETS = (Figure2(),)
