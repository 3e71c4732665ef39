"""An evaluation to look at: the confusion matrix as a picture, and all of it as one HTML page that loads nothing."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path

from mnemon import files
from mnemon.own_data.evaluate import Evaluation
from mnemon.render import html, names
from mnemon.render.confusion import Confusion
from mnemon.render.svg import Pen

LABELLED = 40  # classes up to this many are named along the sides …
COUNTED = 15  # … and up to this many have the number of samples in each cell


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

    drawn = _drawn(found)
    width, height, margins = drawn.extent()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"text.parse_math": False, "font.size": 9})
        figure = Figure(figsize=(width / 72, height / 72), dpi=144)
        drawn.paint(figure.add_axes(margins.inside(width, height)), "#20242a", "#656b73", "#dfdfd8")
        file = BytesIO()
        figure.savefig(file, format="png", facecolor="white", metadata={"Software": None})
    return file.getvalue()


def _drawn(found: Evaluation) -> Confusion:
    """Each row is shaded by its own shares, so that rare classes show as well as frequent ones."""
    n = len(found.labels)
    return Confusion(
        strength=found.matrix / found.matrix.sum(1, keepdims=True).clip(1),
        labels=found.labels,
        order="by name",
        labelled=LABELLED,
        letters=16,
        side=min(max(200, (26 if n <= COUNTED else 13) * n), 520),
        counts=found.matrix if n <= COUNTED else None,
    )


def page(found: Evaluation, *, model: str, data: str) -> str:
    classes, drawn = found.classes(), _drawn(found)
    count = _classes(len(classes))
    unknown = [c for c in classes if not c.learned]
    notes = []
    if unknown:
        notes.append(
            f"Never shown to the model, so counted as wrong: {_listed([c.label for c in unknown])} "
            f"({names.plural(sum(c.samples for c in unknown), found.unit)})."
        )
    if found.known:
        notes.append(
            f"The model was fitted with {found.known:,} of these {names.plural(found.samples + found.skipped, found.unit)}: "
            "its accuracy on them says little about new ones."
        )
    if found.skipped:
        what = "file" if found.unit == "image" else found.unit
        notes.append(f"Left out, since unreadable: {names.plural(found.skipped, what)}.")
    return html.page(
        "evaluation.html",
        found=found,
        model=model,
        data=data,
        count=count,
        classes=sorted(classes, key=lambda c: (c.accuracy, -c.samples)),
        mean=sum(c.accuracy for c in classes) / len(classes),
        notes=notes,
        svg=drawn.draw(Pen(), f"Confusion matrix of {count}, true against predicted"),
        width=drawn.extent()[0],
    )


def _classes(count: int) -> str:
    return "one class" if count == 1 else f"{count:,} classes"


def _listed(labels: list[str]) -> str:
    shown = [names.text(label) for label in labels[:10]]
    more = f" and {len(labels) - 10:,} more" if len(labels) > 10 else ""
    return ", ".join(shown) + more
