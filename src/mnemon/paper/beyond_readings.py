"""What a folder of results knows of the rows beyond the paper: accuracy, forgetting and cost of each, by read-out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from mnemon import data
from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.record import Record, mean_seconds
from mnemon.experiments.stats import Estimate, estimate
from mnemon.learning import cost
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import make_learner
from mnemon.paper import cells, ranking
from mnemon.paper.beyond import ALSO, PAPER, STREAMS, TRACKS, TrackRow, known_rows
from mnemon.paper.pareto import Trade, front
from mnemon.paper.results import CellRuns, Results

READ_OUTS = {"ncm": "NCM", "softmax": "softmax", "ridge": "ridge", "blend": "blend", "gaussian": "Gaussian"}

# Rows of the paper's tables that stand beside, at the cells' own values.
BESIDE = (cells.row("er", "softmax"), cells.row("hybrid"), cells.row("hybrid-ace"), cells.row("iid-online"))


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
    return Cost(cost.multiplications(*asked, network, known.class_count), cost.state_bytes(learner))


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
        runs = results.runs(row.spec(stream), classifier, results.seeds) if chosen else CellRuns({}, "average_accuracy")
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
