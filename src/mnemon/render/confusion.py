"""A confusion matrix. The report, `mnemon evaluate` and its picture draw it here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemon.render import names
from mnemon.render.svg import MUTED, RULE, TEXT, Floats, Margins, Pen

BLUE = (0x3B, 0x7D, 0xC4)  # an image cannot follow the page, so a blue that suits light and dark
DARK = 0.6  # from this strength on a number in a cell is white


@dataclass(frozen=True)
class Confusion:
    """What is drawn: rows are the true classes, columns the predicted ones."""

    strength: Floats  # [true, predicted] from 0 (nothing) to 1 (full blue)
    labels: Sequence[Any]
    order: str  # how classes are sorted, in words, for a matrix too large to name them
    labelled: int  # classes up to this many are named along the sides
    letters: int  # of a name, at most
    side: float  # of the square, in points
    ends: Sequence[int] = ()  # a light rule before each of these classes
    counts: NDArray[np.int64] | None = None  # written into the cells

    @property
    def written(self) -> list[str]:
        """The labels as they stand beside the axes; none where they are too many."""
        named = len(self.labels) <= self.labelled
        return [names.short(label, self.letters) for label in self.labels] if named else []

    def extent(self) -> tuple[float, float, Margins]:
        """Width and height in points, with room for the labels."""
        longest = max(map(len, self.written), default=0)
        text = 5.2 * longest
        margins = Margins(24 + text, 28 + (text if longest > 2 else 8), 4, 4)
        return self.side + margins.left + margins.right, self.side + margins.bottom + margins.top, margins

    def paint(self, ax: Any, text: str = TEXT, muted: str = MUTED, rule: str = RULE) -> None:
        n, written = len(self.labels), self.written
        image = np.empty((n, n, 4), np.uint8)
        image[..., :3] = BLUE
        image[..., 3] = np.rint(255 * self.strength)
        ax.imshow(image, interpolation="none", aspect="auto")
        for end in self.ends:
            ax.axhline(end - 0.5, color=rule, linewidth=0.7)
            ax.axvline(end - 0.5, color=rule, linewidth=0.7)
        for spine in ax.spines.values():
            spine.set_visible(True)
            spine.set_color(rule)
        turned = max(map(len, written), default=0) > 2
        ax.tick_params(length=0, labelcolor=muted)
        ax.set_xticks(range(len(written)), written, rotation=90 if turned else 0, size=8)
        ax.set_yticks(range(len(written)), written, size=8)
        ax.set_xlabel("predicted" if written else f"predicted, {n} classes {self.order}", color=muted)
        ax.set_ylabel("true", color=muted)
        if self.counts is not None:
            for i, j in zip(*self.counts.nonzero(), strict=True):
                colour = "white" if self.strength[i, j] > DARK else text
                ax.text(j, i, names.thousands(int(self.counts[i, j])), ha="center", va="center", size=8, color=colour)

    def draw(self, pen: Pen, label: str) -> str:
        """As SVG for a page."""
        width, height, margins = self.extent()
        return pen.draw(width, height, self.paint, label=label, margins=margins)
