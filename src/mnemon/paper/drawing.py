"""How the paper's figures are drawn: colours, labels, PNG and SVG.

Colours and line styles are the report's; every series differs in line style or place too. The same records give the same
SVG, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mnemon import files
from mnemon.render import style, svg
from mnemon.render.palette import Style

COLOURS = re.findall(r"--s\d: (#[0-9a-f]{6})", style.LIGHT)
INK, MUTED, RULE = (re.findall(rf"--{name}: (#[0-9a-f]{{6}})", style.LIGHT)[0] for name in ("text", "muted", "rule"))
DPI = 110
FORGETFUL = ("fine-tune", "a-gem")  # with them in the picture the others would lie on top of each other
CROWD = 5  # more methods than this, and the forgetful ones are left out

LOOKS = svg.STYLE | {
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


def write(path: Path, draw: Callable[[], Any]) -> None:
    """Write the figure that `draw` makes to `path`, a PNG, and as SVG beside it."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(LOOKS | {"svg.hashsalt": f"mnemon {path.stem}"})
        figure = draw()
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, lambda part: figure.savefig(part, format="png", dpi=DPI, metadata={"Software": None}))
        nothing = {"Date": None, "Creator": None}
        files.replace(path.with_suffix(".svg"), lambda part: figure.savefig(part, format="svg", metadata=nothing))


def sheet(
    width: float, height: float, *, columns: int = 1, rows: int = 1, ratios: Sequence[float] | None = None
) -> tuple[Any, list[Any]]:
    """A figure of that many inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False, width_ratios=ratios)
    return figure, list(axes.flat)


def panels(count: int, width: float = 3.9, height: float = 3.1) -> tuple[Any, list[Any]]:
    """A figure with that many panels of so many inches, two in a row."""
    columns, rows = min(2, count), -(-count // 2)
    figure, axes = sheet(width * columns, height * rows, columns=columns, rows=rows)
    for ax in axes[count:]:
        ax.set_visible(False)
    return figure, axes[:count]


def line(look: Style) -> dict[str, Any]:
    return {"color": COLOURS[look.colour], "linestyle": svg.DASHES[look.dash % len(svg.DASHES)]}


class PointLabel(NamedTuple):
    """A name for a point."""

    text: str
    x: float
    y: float
    colour: str
    strong: bool = False
    dash: Any = "-"


def label_points(ax: Any, labels: Sequence[PointLabel]) -> None:
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
