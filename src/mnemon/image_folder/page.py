"""An evaluation to look at: the confusion matrix as a picture, and all of it as one HTML page that loads nothing."""

from __future__ import annotations

import warnings
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mnemon import files
from mnemon.image_folder.evaluate import ClassResult, Evaluation
from mnemon.render import names
from mnemon.render.style import CSS
from mnemon.render.svg import MUTED, RULE, TEXT, Margins, Pen

BLUE = (0x3B, 0x7D, 0xC4)  # as in the report: it suits light and dark pages
LABELLED = 40  # classes up to this many are named along the sides …
COUNTED = 15  # … and up to this many have the number of images in each cell


def write(found: Evaluation, folder: Path, *, model: str, data: str) -> tuple[Path, Path]:
    """FOLDER/evaluation.html and FOLDER/confusion.png; `model` and `data` are how the page names them."""
    pages = {"evaluation.html": page(found, model=model, data=data).encode(), "confusion.png": picture(found)}
    with files.explained(f"the evaluation could not be written to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in pages.items():
            files.write(folder / name, content)
    return folder / "evaluation.html", folder / "confusion.png"


def picture(found: Evaluation) -> bytes:
    """The confusion matrix as PNG."""
    import matplotlib
    from matplotlib.figure import Figure

    width, height, margins = _extent(found)
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"text.parse_math": False, "font.size": 9, "axes.edgecolor": "#cccccc"})
        figure = Figure(figsize=(width / 72, height / 72), dpi=144)
        _paint(figure.add_axes(margins.inside(width, height)), found, "#20242a", "#656b73", "#dfdfd8")
        file = BytesIO()
        figure.savefig(file, format="png", facecolor="white", metadata={"Software": None})
    return file.getvalue()


def _paint(ax: Any, found: Evaluation, text: str, muted: str, rule: str) -> None:
    """Each row is shaded by its own shares, so that rare classes show as well as frequent ones."""
    n = len(found.labels)
    shares = found.matrix / found.matrix.sum(1, keepdims=True).clip(1)
    image = np.empty((n, n, 4), np.uint8)
    image[..., :3] = BLUE
    image[..., 3] = np.rint(255 * shares)
    ax.imshow(image, interpolation="none", aspect="auto")
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_color(rule)
    ax.tick_params(length=0, labelcolor=text)
    shown = [names.short(label, 16) for label in found.labels] if n <= LABELLED else []
    ax.set_xticks(range(len(shown)), shown, rotation=90 if max(map(len, shown), default=0) > 2 else 0, size=8)
    ax.set_yticks(range(len(shown)), shown, size=8)
    ax.set_xlabel("predicted" if shown else f"predicted, {n} classes by name", color=muted)
    ax.set_ylabel("true", color=muted)
    if n <= COUNTED:
        for i, j in zip(*found.matrix.nonzero(), strict=True):
            colour = "white" if shares[i, j] > 0.6 else text
            ax.text(j, i, names.thousands(int(found.matrix[i, j])), ha="center", va="center", size=8, color=colour)


def _extent(found: Evaluation) -> tuple[float, float, Margins]:
    """Width and height in points: square cells, and room for the labels."""
    n = len(found.labels)
    longest = max(len(names.short(label, 16)) for label in found.labels) if n <= LABELLED else 0
    side = min(max(200, (26 if n <= COUNTED else 13) * n), 520)
    left, bottom = 26 + 5 * longest, 28 + (5 * longest if longest > 2 else 8)
    return side + left + 6, side + bottom + 6, Margins(left, bottom, 6, 6)


def page(found: Evaluation, *, model: str, data: str) -> str:
    classes = found.classes()
    width, height, margins = _extent(found)
    svg = Pen().draw(
        width,
        height,
        lambda ax: _paint(ax, found, TEXT, MUTED, RULE),
        label=f"Confusion matrix of {_classes(len(found.labels))}, true against predicted",
        margins=margins,
    )
    rows = "\n".join(_row(c) for c in sorted(classes, key=lambda c: (c.accuracy, -c.images)))
    strangers = [c for c in classes if not c.learned]
    notes = []
    if strangers:
        notes.append(
            f"Never shown to the model, so counted as wrong: {_listed([c.label for c in strangers])} "
            f"({names.plural(sum(c.images for c in strangers), 'image')})."
        )
    if found.skipped:
        notes.append(f"Left out, since unreadable: {names.plural(found.skipped, 'file')}.")
    mean = sum(c.accuracy for c in classes) / len(classes)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="generator" content="mnemon" />
<title>{escape(names.text(data))}: mnemon evaluation</title>
<style>{CSS}
.matrix {{ max-width: {width * 1.35:.0f}px; }}
.matrix + figcaption {{ max-width: 46rem; }}</style>
</head>
<body>
<header>
<h1>What the model makes of “{escape(names.text(data))}”</h1>
<p class="quiet">Model “{escape(names.text(model))}”, {names.plural(found.images, "image")} of {_classes(len(classes))}.</p>
</header>
<main>
<section>
<p class="headline">{found.accuracy:.1f} % of the images are recognised: {found.right:,} of {found.images:,}.
The mean over classes is {mean:.1f} %.</p>
{"".join(f'<p class="note">{escape(note)}</p>' for note in notes)}
<figure class="who">
<h3>Who is taken for whom</h3>
<div class="matrix">{svg}</div>
<figcaption>A row is a true class, a column what the model said; each row is shaded by its own shares, and what lies on the
diagonal is right.</figcaption>
</figure>
<figure class="classes">
<h3>Class by class, the weakest first</h3>
<div class="scroll" role="region" aria-label="Classes" tabindex="0"><table>
<thead><tr><th scope="col">Class</th><th scope="col">Images</th><th scope="col">Recognised</th><th scope="col">Accuracy, %</th>
<th scope="col">Precision, %</th><th scope="col">Most often taken for</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>
<figcaption>Accuracy: how many of the class are recognised (recall). Precision: how many of those taken for the class are
of it.</figcaption>
</figure>
</section>
</main>
<footer><section><p class="quiet">Made by <code>mnemon evaluate</code>. This page is one file and loads
nothing.</p></section></footer>
</body>
</html>
"""


def _row(c: ClassResult) -> str:
    precision = "–" if c.precision is None else f"{c.precision:.1f}"
    taken_for = "–" if c.taken_for is None else escape(names.text(c.taken_for))
    return (
        f'<tr><th scope="row">{escape(names.text(c.label))}</th><td>{c.images:,}</td><td>{c.right:,}</td>'
        f"<td>{c.accuracy:.1f}</td><td>{precision}</td><td>{taken_for}</td></tr>"
    )


def _classes(count: int) -> str:
    return "one class" if count == 1 else f"{count:,} classes"


def _listed(labels: list[str]) -> str:
    shown = [names.text(label) for label in labels[:10]]
    more = f" and {len(labels) - 10:,} more" if len(labels) > 10 else ""
    return ", ".join(shown) + more
