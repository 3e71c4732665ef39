"""A matplotlib figure → inline SVG that takes its colours and fonts from the page, so it follows light and dark.

Figures are drawn with stand-in colours, which become CSS variables here. Text stays text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from html import escape
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mnemon.render.palette import Style

Floats = NDArray[np.float64]
TEXT, MUTED, RULE = "#fd0000", "#fd0001", "#fd0002"
NAMED = {TEXT: "currentColor", MUTED: "var(--muted)", RULE: "var(--rule)"}
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mnemon",
    "text.parse_math": False,  # a label may hold a dollar sign
    "font.size": 10,
    "text.color": TEXT,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 9.5,
    "axes.edgecolor": RULE,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.solid_capstyle": "round",
}


class Margins(NamedTuple):
    """Room around the axes for its labels."""

    left: float = 38
    bottom: float = 34
    right: float = 8
    top: float = 10

    def inside(self, width: float, height: float) -> tuple[float, float, float, float]:
        """The axes of a figure of that size, as matplotlib's `add_axes` takes them."""
        inner_width, inner_height = width - self.left - self.right, height - self.bottom - self.top
        return self.left / width, self.bottom / height, inner_width / width, inner_height / height


def ink(colour: int) -> str:
    """The stand-in for the page's series colour of that number (0: the accent)."""
    return f"#fe00{colour:02x}"


def apart(values: ArrayLike, gap: float, low: float = -np.inf, high: float = np.inf) -> Floats:
    """Heights for labels: near the values and in their order, `gap` apart, within bounds that are wide enough."""
    wanted = np.asarray(values, np.float64)
    order, steps = np.argsort(wanted, kind="stable"), np.arange(len(wanted)) * gap
    wish = np.clip(wanted[order] - steps, low, high - steps[-1:])
    up, down = np.maximum.accumulate(wish), np.minimum.accumulate(wish[::-1])[::-1]  # only ever moved up, or down
    heights = np.empty_like(wanted)
    heights[order] = (up + down) / 2 + steps
    return heights


class Pen:
    """Draws the figures of one page; it counts them, since ids must be unique on the page."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw(
        self, width: float, height: float, paint: Callable[[Any], None], *, label: str, margins: Margins | None = None
    ) -> str:
        """`paint` gets the axes of a transparent figure of that size, in units of the SVG; `label` is read aloud."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # the browser has other fonts
            matplotlib.rcdefaults()  # whatever the reader's own settings are
            matplotlib.rcParams.update(STYLE)
            figure = Figure(figsize=(width / 72, height / 72), dpi=72)
            paint(figure.add_axes((margins or Margins()).inside(width, height)))
            file = StringIO()
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        self.drawn += 1
        return _inline(file.getvalue(), f"g{self.drawn}", label)


def _inline(drawn: str, prefix: str, label: str) -> str:
    body = drawn[drawn.index("<svg") :]
    box = re.search(r'viewBox="([^"]*)"', body)
    assert box is not None
    body = body[body.index(">") + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href", "href")
    # Ids: those referred to get a name of this page's own, the others go.
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    fresh = {old: f"{prefix}-{number}" for number, old in enumerate(used)}
    body = re.sub(r' id="([^"]*)"', lambda m: f' id="{fresh[m[1]]}"' if m[1] in fresh else "", body)
    body = re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + fresh[m[2]], body)
    body = re.sub(r"((?:fill|stroke): )(#f[de]00[0-9a-f]{2})", lambda m: m[1] + _css(m[2]), body)
    body = re.sub(r" font-family: [^;\"]*;", "", body)  # the page's
    # Not what is written between tags.
    body = re.sub(r"<[^>]*>", lambda tag: re.sub(r"\d+\.\d{3,}", _rounded, tag[0]), body)
    body = re.sub(r">\s+<", "><", body)
    return f'<svg class="plot" viewBox="{box[1]}" role="img" aria-label="{escape(label)}">{body.strip()}'


def _rounded(number: re.Match[str]) -> str:
    """To a hundredth of a unit, which is about a pixel."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _css(colour: str) -> str:
    return NAMED.get(colour) or f"var(--s{int(colour[5:], 16)})"


def swatch(style: Style) -> str:
    """A line as the figures draw it, to stand before a name."""
    pattern = DASHES[style.dash % len(DASHES)]
    dash = "" if isinstance(pattern, str) else f' stroke-dasharray="{" ".join(str(2 * d) for d in pattern[1])}"'
    line = f'<path d="M0 6h30" stroke="var(--s{style.colour})" stroke-width="{5 if style.colour == 0 else 4}"{dash} />'
    return f'<svg class="swatch" viewBox="0 0 30 12" aria-hidden="true">{line}</svg>'
