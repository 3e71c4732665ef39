"""The picture of a benchmark: how many times the eager loop's steps per second, by method and number of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

COLOURS = ("#9aa5b1", "#4c78a8", "#1b3a5c", "#e07a1f")


def draw(record: dict[str, Any], out: Path) -> None:
    """OUT/bench.png and OUT/bench.svg."""
    found = record["training"]
    names = [name for name in found[0]["times_eager"] if not name.startswith("eager")]
    with mpl.rc_context({"svg.hashsalt": "mnemon", "font.size": 9}):
        figure = Figure(figsize=(6.4, 0.9 + 0.24 * len(found) * (len(names) + 1)), layout="constrained")
        axes = figure.subplots()
        height = 0.8 / len(names)
        longest = 1.0
        for k, name in enumerate(names):
            places = np.arange(len(found)) + (k - (len(names) - 1) / 2) * height
            values = [f["times_eager"][name][0] for f in found]
            axes.barh(places, values, height * 0.9, color=COLOURS[k % len(COLOURS)], label=name)
            for place, value in zip(places, values, strict=True):
                axes.annotate(
                    f"{value:.1f}", (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8
                )
            longest = max(longest, *values)
        axes.axvline(1, color="#444444", linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(found)), [f"{f['method']}, {f['net']}" for f in found])
        axes.invert_yaxis()
        axes.set_xlim(0, longest * 1.12)
        axes.set_xlabel(f"steps per second, times the eager loop's ({record['device']}, {record['precision']})")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.5 / figure.get_figheight()), ncols=4
        )
        figure.savefig(out / "bench.png", dpi=150)
        figure.savefig(out / "bench.svg", metadata={"Date": None})
