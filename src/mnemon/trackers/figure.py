"""The accuracy matrix as a picture: what was known of each task after each task."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemon.render import names
from mnemon.render.confusion import BLUE, DARK
from mnemon.render.svg import Margins

TEXT, MUTED, RULE = "#20242a", "#656b73", "#dfdfd8"
NUMBERED = 20  # tasks up to this many have their accuracy in the cells
LARGEST = 200  # tasks; of more the picture is not larger, and its cells are smaller than a pixel


def accuracy_matrix(matrix: NDArray[np.float64]) -> bytes:
    """PNG of a[k, j] in percent, nan where task j was not learned yet."""
    import matplotlib
    from matplotlib.figure import Figure

    tasks = max(matrix.shape)
    side = max(220.0, 24.0 * tasks if tasks <= NUMBERED else 6.0 * min(tasks, LARGEST))
    margins = Margins(left=44, bottom=40, right=12, top=12)
    width, height = side + margins.left + margins.right, side + margins.bottom + margins.top
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own settings are
        drawn = Figure(figsize=(width / 72, height / 72), dpi=144)
        _paint(drawn.add_axes(margins.inside(width, height)), matrix)
        file = BytesIO()
        drawn.savefig(file, format="png", facecolor="white", metadata={"Software": None})
    return file.getvalue()


def _paint(ax: Any, matrix: NDArray[np.float64]) -> None:
    rows, columns = matrix.shape
    strength = np.clip(np.nan_to_num(matrix) / 100, 0, 1)
    image = np.empty((rows, columns, 4), np.uint8)
    image[..., :3] = BLUE
    image[..., 3] = np.rint(255 * strength)
    ax.imshow(image, interpolation="none", aspect="auto", extent=(0.5, columns + 0.5, rows + 0.5, 0.5))
    if columns <= NUMBERED:
        for k, j in np.argwhere(np.isfinite(matrix)):
            colour = "white" if strength[k, j] > DARK else TEXT
            ax.text(j + 1, k + 1, names.fixed(matrix[k, j], 0), ha="center", va="center", size=10.5, color=colour)
    for spine in ax.spines.values():
        spine.set_color(RULE)
    ax.tick_params(length=0, labelcolor=MUTED, labelsize=10)
    ax.locator_params(integer=True)
    if columns <= NUMBERED:
        ax.set_xticks(range(1, columns + 1))
        ax.set_yticks(range(1, rows + 1))
    ax.set_xlabel("accuracy on task, %", color=MUTED, size=11)
    ax.set_ylabel("after task", color=MUTED, size=11)
