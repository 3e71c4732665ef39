"""Learners beyond the paper, measured by its protocol: which rows there are, and what a folder knows of them.

Each row belongs to a track, which says what it may use (docs/beyond.md). What is chosen for a row is chosen on
validation samples with seeds from 100 on (`mnemon tune --row`, paper/row_settings.py); the rows then have fifteen runs on
test images, as the paper's cells have. One training serves all read-outs of a row, and validation chooses one of them too.

Rows, streams and ablations are data. A row that this version cannot make is left out and named in a note.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from mnemon import data
from mnemon.errors import MnemonError, check_known
from mnemon.experiments import protocol
from mnemon.experiments.recipes.grids import Grid
from mnemon.experiments.record import Record, mean_seconds
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate, estimate
from mnemon.experiments.tuning import FIXED, RowSetting, Search, check_keep
from mnemon.learning import cost
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import make_learner
from mnemon.paper import cells, ranking, row_settings
from mnemon.paper.pareto import Trade, front
from mnemon.paper.results import CellRuns, Results
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

READ_OUTS = {"ncm": "NCM", "softmax": "softmax", "ridge": "ridge", "blend": "blend", "gaussian": "Gaussian"}


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
# The square root of each feature; threshold, images of the dictionary and λ are those with the best validation mean (ABLATION).
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

# Rows of the paper's tables that stand beside, at the cells' own values.
BESIDE = (cells.row("er", "softmax"), cells.row("hybrid"), cells.row("hybrid-ace"), cells.row("iid-online"))


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
    check_keep(name)
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


# --- what a folder knows of them


class Cost(NamedTuple):
    """What a learner costs; None where its records do not say."""

    multiplications: int | None  # per new sample of the stream: replay, backward pass and extra passes included
    state_bytes: int | None  # of all that a checkpoint of the learner would hold


def cost_of(record: Record) -> Cost:
    """As the record states it; of a record made before version 0.2, which does not, what its method and options say."""
    if "state_bytes" in record:
        return Cost(record.get("multiplications"), record["state_bytes"])
    name = protocol.parse(record["stream"])
    options = tuple(sorted(record["options"].items()))
    return _computed(record["method"], record["loss"], name.dataset, record.get("backbone"), options)


@lru_cache
def _computed(method: str, loss: str, dataset: str, backbone: str | None, options: tuple[tuple[str, Any], ...]) -> Cost:
    known = data.definitions().get(dataset)
    try:
        choice = choose(method, loss, given=dict(options))
    except MnemonError:  # of a method or an option that this version does not have
        known = None
    if known is None:
        return Cost(None, None)
    inputs = Inputs(known.shape, torch.uint8, known.mean, known.std)
    asked = (choice.method, choice.objective, inputs)
    network = backbone or known.rules.backbone
    learner = make_learner(*asked, backbone=network, device="meta")  # shapes without values
    learner.grow(known.class_count)
    return Cost(cost.multiplications(*asked, network, learner.net.capacity), cost.state_bytes(learner))


@dataclass(frozen=True)
class Reading:
    """A row on a stream as one classifier reads it."""

    track: str
    label: str
    classifier: str
    runs: CellRuns
    chosen: bool  # the read-out that validation chose, or the only one
    choices: int = 1  # how many read-outs the row has
    searched: bool = True
    bound: bool = False  # learns from shuffled samples

    @property
    def read_out(self) -> str:
        return READ_OUTS.get(self.classifier.partition(":")[0], self.classifier)

    @property
    def title(self) -> str:
        """In the pictures."""
        track = "" if self.track == PAPER else f"{self.track}: "
        return f"{track}{self.label}" + (f", {self.read_out}" if self.choices > 1 else "")

    @property
    def accuracy(self) -> Estimate | None:
        return self.runs.estimate

    @property
    def forgetting(self) -> Estimate | None:
        return estimate(record.get("average_forgetting") for record in self.runs.records.values())

    @property
    def cost(self) -> Cost:
        """Of the runs that state it; all runs of a row on a stream cost the same."""
        every = [cost_of(record) for record in self.runs.records.values()]
        products = [cost.multiplications for cost in every if cost.multiplications is not None]
        states = [cost.state_bytes for cost in every if cost.state_bytes is not None]
        return Cost(max(products, default=None), max(states, default=None))

    @property
    def seconds(self) -> float | None:
        return mean_seconds(self.runs.records.values())


def of_row(results: Results, row: TrackRow, stream: str) -> list[Reading]:
    """The read-outs of a row on a stream, in the row's order."""
    chosen, found = row.chosen(stream), []
    for classifier in row.classifiers:
        there: Mapping[int, Record] = results.index.like(row.spec(stream), classifier) if chosen else {}
        runs = CellRuns({seed: there[seed] for seed in results.seeds if seed in there}, "average_accuracy")
        the_one = chosen is not None and chosen.classifier == classifier
        found.append(
            Reading(row.track, row.label, classifier, runs, the_one, len(row.classifiers), searched=chosen is not None)
        )
    return found


def readings(results: Results, stream: str) -> list[Reading]:
    """The paper's rows that stand beside, then ours track by track."""
    found = []
    for each in BESIDE:
        runs = results.of(ranking.cell(each, stream))
        found.append(Reading(PAPER, each.short_name, each.classifier, runs, chosen=True, bound=each.bound))
    ours = sorted((row for row in known_rows() if row.on(stream)), key=lambda row: list(TRACKS).index(row.track))
    return found + [reading for row in ours for reading in of_row(results, row, stream)]


def shown_streams(results: Results) -> list[str]:
    """Those that a row beyond the paper was run on."""
    every = (*STREAMS, *ALSO)
    rows = known_rows()
    return [s for s in every if any(r.runs.records for row in rows if row.on(s) for r in of_row(results, row, s))]


def best_of_tracks(found: Sequence[Reading]) -> list[Reading]:
    """In each track with two rows or more the best of what validation chose."""
    best = []
    for track in TRACKS:
        compared = [(r.accuracy.mean, r) for r in found if r.track == track and r.chosen and r.accuracy]
        if len(compared) > 1:
            best.append(max(compared, key=lambda pair: pair[0])[1])
    return best


def over_budget(found: Sequence[Reading]) -> list[Reading]:
    """Readings of track B that take more than the track allows, as far as the records say."""
    beside = {reading.label: reading.cost for reading in found if reading.track == PAPER}
    er, hybrid = (beside.get(label, Cost(None, None)) for label in ("ER", "hybrid"))
    return [
        reading
        for reading in found
        if reading.track == "B" and (_more(reading.cost[0], er[0]) or _more(reading.cost[1], hybrid[1]))
    ]


def _more(mine: int | None, allowed: int | None) -> bool:
    return mine is not None and allowed is not None and mine > allowed


class Point(NamedTuple):
    """A reading in a picture of accuracy against a cost."""

    reading: Reading
    cost: float
    accuracy: Estimate
    best: bool  # on the Pareto front; an i.i.d. bound never is, since it does not learn from the stream


def points(found: Iterable[Reading], cost: str) -> list[Point]:
    """What validation chose, where both are known; `cost`: "multiplications" or "state_bytes"."""
    known = [
        (reading, float(price), reading.accuracy)
        for reading in found
        if reading.chosen and reading.accuracy and (price := getattr(reading.cost, cost)) is not None
    ]
    online = [each for each in known if not each[0].bound]
    on_front = front([Trade(price, accuracy.mean) for _, price, accuracy in online])
    best = [reading for (reading, *_), is_best in zip(online, on_front, strict=True) if is_best]
    return [Point(*each, any(each[0] is other for other in best)) for each in known]


# --- the ablation of the patches, on validation samples

ABLATION_STREAMS = ("split-cifar10", "split-cifar100-20")
ABLATION_SEEDS = (100, 101, 102)
FILTERS = 256  # where nothing else is said


class Ablation(NamedTuple):
    """One line: what is changed, and how."""

    changed: str
    label: str
    backbone: str = patches(FILTERS)
    options: Mapping[str, Any] = BOTH_VIEWS
    classifier: str = GAUSSIAN

    def spec(self, stream: str, seed: int) -> Spec:
        about = ("slda", stream, seed, "none", (self.classifier,), "valid")
        return Spec(*about, options=dict(self.options), cell="ablation", backbone=self.backbone)


ABLATION = (
    Ablation("filters", "patches of the first images"),
    Ablation("filters", "noise", patches(FILTERS, source="noise")),
    Ablation("covariance", "shared by all classes"),
    Ablation("covariance", "the identity: nearest class mean", classifier="gaussian:covariance=identity"),
    Ablation("views", "the image and its mirror image"),
    Ablation("views", "the image", options={"views": 1}),
    *(Ablation("power of the features", str(p), patches(FILTERS, power=p)) for p in (0.5, 1.0)),
    *(Ablation("soft threshold α", str(t), patches(FILTERS, threshold=t)) for t in (0.25, 0.5)),
    *(Ablation("shrinkage λ", lam, classifier=f"gaussian:lam={lam}") for lam in ("0.0001", "0.001", "0.01")),
    *(Ablation("filters K", str(k), patches(k)) for k in (64, 128, 256, 512, 1024)),
    *(Ablation("images of the dictionary", str(n), patches(FILTERS, images=n)) for n in (10, 100, 1000)),
)


def known_ablation() -> list[Ablation]:
    """The lines that this version can make."""
    found = []
    for each in ABLATION:
        try:
            each.spec(ABLATION_STREAMS[0], ABLATION_SEEDS[0]).choice()
        except MnemonError:
            continue
        found.append(each)
    return found


def validated(results: Results, each: Ablation, stream: str) -> dict[int, float]:
    """Validation accuracy of a line by seed."""
    spec = each.spec(stream, ABLATION_SEEDS[0])
    there = results.index.like(spec, spec.classifiers[0])
    return {seed: float(there[seed]["average_accuracy"]) for seed in ABLATION_SEEDS if seed in there}
