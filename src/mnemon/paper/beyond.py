"""Learners beyond the paper, measured by its protocol: which rows there are, and what validation chooses for them.

Each row belongs to a track, which says what it may use (docs/beyond.md). What is chosen for a row is chosen on
validation samples with seeds from 100 on (`mnemon tune --row`, paper/row_settings.py); the rows then have fifteen runs on
test images, as the paper's cells have. One training serves all read-outs of a row, and validation chooses one of them too.

Rows and streams are data. A row that this version cannot make is left out and named in a note.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemon.errors import MnemonError, check_known
from mnemon.experiments import protocol
from mnemon.experiments.recipes.grids import Grid
from mnemon.experiments.spec import Spec
from mnemon.experiments.tuning import FIXED, RowSetting, Search, check_keep
from mnemon.paper import row_settings
from mnemon.paper.row_settings import Chosen

TRACKS = {
    "A": "the paper's network, memory and steps, no augmentation; averaged weights and other read-outs are allowed",
    "A+": "the same with crop and flip",
    "B": "at most the bytes of the paper's method and the multiplications of ER, one pass",
    "C": "free",
}
PAPER = "–"  # the track of the rows of the paper's tables that stand beside

# Planned. Both numbers of tasks of a dataset share what the search on the first of them chose.
STREAMS = (
    "split-cifar10",
    "split-cifar100-20",
    "split-cifar100-10",
    "smooth-cifar10",
    "smooth-cifar100",
    "split-mnist",
    "split-mini_imagenet-20",
)
ALSO = ("split-mini_imagenet-10", "smooth-mini_imagenet")  # planned where they are named, shown where they were run
PANELS = ("split-cifar10", "split-cifar100-20", "split-mini_imagenet-20")  # of the pictures


@dataclass(frozen=True)
class TrackRow:
    """A learner of a track: one training with all its read-outs."""

    name: str  # as `mnemon tune --row` takes it
    label: str
    track: str
    method: str
    loss: str
    classifiers: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)  # the same on every stream
    grid: Grid = field(default_factory=dict)  # what is chosen on validation; empty: nothing
    backbone: str | Mapping[str, str] | None = None  # by dataset where it depends on it; None: the dataset's own

    def on(self, stream: str) -> bool:
        """Whether there is such a row on the stream."""
        return not isinstance(self.backbone, Mapping) or protocol.parse(stream).dataset in self.backbone

    def chosen(self, stream: str) -> Chosen | None:
        """What validation chose on the stream; None where it was not asked yet."""
        if not self.grid:
            return Chosen({}, self.classifiers[0], "nothing is chosen")
        return row_settings.chosen(self.name, stream)

    def spec(self, stream: str, seed: int = 0) -> Spec:
        """The run behind the row, where what is to be chosen was chosen."""
        chosen = self.chosen(stream)
        assert chosen is not None, self.name
        return self._spec(stream, seed, chosen.values)

    def unknown(self) -> str:
        """Why this version cannot make the row; empty where it can."""
        stream = next(stream for stream in STREAMS if self.on(stream))
        try:
            self._spec(stream, 0, {name: values[0] for name, values in self.grid.items()}).choice()
        except MnemonError as error:
            return str(error)
        return ""

    def _spec(self, stream: str, seed: int, values: Mapping[str, Any]) -> Spec:
        backbone = self.backbone
        if isinstance(backbone, Mapping):
            backbone = backbone[protocol.parse(stream).dataset]
        options = {**self.options, **values}
        return Spec(
            self.method, stream, seed, self.loss, self.classifiers, options=options, cell="beyond", backbone=backbone
        )


# --- the rows

FOUR = ("ncm", "softmax", "ridge", "blend")
AVERAGE = ("auto", 0.97, 0.99, 0.997, 0.998, 0.999)  # the decay must fit the length of the stream
WITH_HEAD: Grid = {"lr": (0.02, 0.05, 0.1), "gamma": (0.33, 1.0), "average": AVERAGE}
BOTH_VIEWS = {"views": 2}  # the image and its mirror image
# The square root of each feature; threshold, images of the dictionary and λ are those with the best validation mean
# (patches_ablation.py).
PATCHES = {"power": 0.5, "threshold": 0.5, "images": 1000}
GAUSSIAN = "gaussian:lam=0.0001"


def patches(filters: int, **more: Any) -> str:
    """The backbone with so many filters, and with other options than the rows' where they are named."""
    return ":".join(["patches", f"filters={filters}", *(f"{name}={value}" for name, value in (PATCHES | more).items())])


def _patches(name: str, label: str, track: str, backbone: str | Mapping[str, str]) -> TrackRow:
    return TrackRow(name, label, track, "slda", "none", (GAUSSIAN,), BOTH_VIEWS, backbone=backbone)


ROWS = (
    TrackRow(
        "averaged-hybrid", "hybrid, avg.", "A", "hybrid", "hybrid", ("ncm",),
        grid={"lr": (0.05, 0.1, 0.2), "gamma": (0.1, 0.5, 1.0), "average": AVERAGE},
    ),
    TrackRow("averaged-hybrid-ace", "hybrid-ACE, avg.", "A", "hybrid-ace", "hybrid-ace", FOUR, grid=WITH_HEAD),
    TrackRow("averaged-hybrid-ce", "hybrid-CE, avg.", "A", "er", "hybrid-ce", FOUR, grid=WITH_HEAD),
    TrackRow(
        "augmented-hybrid-ace", "hybrid-ACE, avg.", "A+", "hybrid-ace", "hybrid-ace", FOUR, {"augment": "all"}, WITH_HEAD
    ),
    # So many filters that the state is at most that of the paper's method on the dataset.
    _patches("patches-same-bytes", "patches", "B", {
        "cifar10": patches(237), "cifar100": patches(227), "mini_imagenet": patches(434), "mnist": patches(132),
    }),
    *(_patches(f"patches-{k}", f"patches, K {k}", "C", patches(k)) for k in (64, 128, 512, 1024)),
)  # fmt: skip


def row(name: str) -> TrackRow:
    """The row of this name."""
    by_name = {row.name: row for row in ROWS}
    check_known("row beyond the paper:", name, by_name)
    return by_name[name]


def known_rows() -> list[TrackRow]:
    """Those that this version can make."""
    return [row for row in ROWS if not row.unknown()]


# --- what validation is asked


def row_setting(row: TrackRow, stream: str) -> RowSetting:
    """What a search for the row starts from: values that an earlier search chose, and those of the row."""
    if not row.grid:
        raise MnemonError(f"nothing of the row {row.name} is chosen on validation.")
    known = row.chosen(stream)
    values = {**row.options, **(known.values if known else {})}
    source = known.source if known else "not searched yet"
    return RowSetting(row.name, row.classifiers, values, row.grid, source)


def check_search(row: TrackRow, method: str, loss: str | None, classifiers: Sequence[str]) -> None:
    """Refuse a search for the row with another method, loss or classifier than it has."""
    for what, asked, has in (("method", method, row.method), ("loss", loss, row.loss)):
        if asked not in (None, has):
            raise MnemonError(f"the row {row.name} has the {what} {has}, not {asked}.")
    for classifier in classifiers:
        if classifier not in row.classifiers:
            raise MnemonError(f"the row {row.name} is read by {', '.join(row.classifiers)}, not by {classifier}.")


def keep(row: TrackRow, found: Search) -> str:
    """The chosen values and classifier become the row's on the stream; returns them in words."""
    name = protocol.parse(found.stream)
    check_keep(name, found.held)
    classifier = found.chosen.classifier
    assert classifier is not None  # the chosen one has runs
    whole = {option: value for option, value in found.choice.options().items() if option not in FIXED}
    values = whole | dict(row.options) | found.chosen.values
    choice = Chosen(values, classifier, found.source)
    row_settings.keep(row.name, found.stream, choice)
    said = ", ".join(f"{option} {value}" for option, value in values.items())
    return f"{row.name} / {name.kind}-{name.dataset}: {said}, read by {classifier} ({choice.source})"


def searches(rows: Iterable[TrackRow], streams: Iterable[str]) -> dict[str, str]:
    """The commands that choose what was not chosen yet, with the stream of each."""
    found: dict[str, str] = {}
    for row in rows:
        asked = set()
        for stream in streams:
            name = protocol.parse(stream)
            if row.grid and row.on(stream) and row.chosen(stream) is None and (name.kind, name.dataset) not in asked:
                asked.add((name.kind, name.dataset))
                found[search_command(row, stream)] = stream
    return found


def search_command(row: TrackRow, stream: str) -> str:
    return shlex.join(["mnemon", "tune", "--method", row.method, "--row", row.name, "--stream", stream, "--keep"])
