"""Records → one section for each stream and split → groups of runs that differ in nothing but their seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.experiments.record import Record, Variant
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate, estimate
from mnemon.experiments.store import ResultFolder
from mnemon.learning.build import omitted_at_default
from mnemon.learning.methods import methods
from mnemon.learning.objectives import OBJECTIVES
from mnemon.render import names
from mnemon.render.palette import Style, order_of, palette_of
from mnemon.streams.kinds import is_task_free

METRICS = {  # field of a record → its title, in the order of the columns; lower is better for forgetting alone
    "average_accuracy": "Average Accuracy",
    "average_forgetting": "Average Forgetting",
    "anytime_accuracy": "Anytime accuracy",
    "learning_accuracy": "Learning accuracy",
    "backward_transfer": "Backward transfer",
    "min_accuracy": "min-ACC",
    "area_under_curve": "Area under the curve",
    "prequential_accuracy": "Prequential accuracy",
    "probe_accuracy": "Linear probe",
}


@dataclass(frozen=True)
class Group:
    """Runs of one experiment, one record per seed."""

    records: tuple[Record, ...]
    name: str
    style: Style
    details: tuple[dict[str, Any], ...]  # of the runs that have them

    @property
    def first(self) -> Record:
        return self.records[0]

    @property
    def variant(self) -> Variant:
        return self.first.variant

    @property
    def seeds(self) -> list[int]:
        return [r["seed"] for r in self.records]

    def values(self, metric: str) -> dict[int, float]:
        """By seed; empty where the metric is undefined for a run, and where a single test makes it equal to the accuracy."""
        if metric in ("anytime_accuracy", "learning_accuracy") and self.matrices.shape[1] == 1:
            return {}
        if any(r.get(metric) is None for r in self.records):
            return {}
        return {r["seed"]: float(r[metric]) for r in self.records}

    @cached_property
    def accuracy(self) -> float:
        """The mean, to compare groups by."""
        return float(np.mean([r["average_accuracy"] for r in self.records]))

    def estimate(self, metric: str) -> Estimate | None:
        return estimate(self.values(metric).values())

    @cached_property
    def usual(self) -> bool:
        """Whether it was run as `mnemon run` does when nothing is said."""
        first = self.first
        natural = first.get("order", "natural") == "natural" and not first.get("backbone") and not first.get("own")
        usual = spec(first).usual()
        options = usual.options() if usual else {}
        return natural and options == first["options"] and not first.precision

    @cached_property
    def matrices(self) -> NDArray[np.float64]:
        """[runs, k, j]; runs of another shape than the first cannot be averaged with it and are left out."""
        every = [np.array(r["accuracy_matrix"], float) for r in self.records]
        return np.stack([a for a in every if a.shape == every[0].shape])


@dataclass(frozen=True)
class Section:
    """All groups of one stream, evaluated on one split."""

    stream: str
    split: str
    groups: list[Group] = field(default_factory=list)
    repeated: int = 0  # runs left out, since a later one has the same settings and seed

    @property
    def title(self) -> str:
        return names.stream(self.stream)

    @property
    def protocol(self) -> dict[str, Any]:
        """The protocol of the stream itself: i.i.d. runs have shuffled it."""
        every: list[dict[str, Any]] = [g.first["protocol"] for g in self.groups]
        return next((p for p in every if p.get("kind") != "iid"), every[0])

    @property
    def tasks(self) -> int:
        """How many tasks accuracy is measured for; 1 where the stream has none."""
        return max(int(g.matrices.shape[2]) for g in self.groups)


def read(folder: Path) -> list[Section]:
    """The sections of a folder: test before validation, streams with tasks before those without."""
    found = ResultFolder(folder).read_some()
    sections: dict[tuple[str, str], list[Record]] = {}
    for record in found:
        sections.setdefault((record["stream"], record.get("split", "test")), []).append(record)
    palette = palette_of(found)
    order = sorted(sections, key=lambda key: (key[1] != "test", is_task_free(key[0].partition("-")[0]), key))
    return [_section(folder, stream, split, sections[stream, split], palette) for stream, split in order]


def _section(folder: Path, stream: str, split: str, found: list[Record], palette: dict[Variant, Style]) -> Section:
    groups: dict[str, dict[int, Record]] = {}
    for record in found:  # in the order they were finished: of two with the same seed the later one stays
        groups.setdefault(record.experiment, {})[record["seed"]] = record
    ordered = sorted(groups.values(), key=lambda runs: order_of(next(iter(runs.values()))))
    by_variant: dict[Variant, list[dict[str, Any]]] = {}
    for runs in ordered:
        first = next(iter(runs.values()))
        by_variant.setdefault(first.variant, []).append(first.settings)
    differing = {variant: _differing(settings) for variant, settings in by_variant.items()}
    drawn: Counter[Variant] = Counter()
    made = []
    for runs in ordered:
        kept = tuple(runs[seed] for seed in sorted(runs))
        own = kept[0].variant
        title = names.variant(own)
        if said := [names.option(name, value) for name, value in kept[0].settings.items() if name in differing[own]]:
            title += f" ({', '.join(said)})"
        base = palette[own]
        style = Style(base.colour, base.dash + drawn[own])  # settings share the colour, not the line
        drawn[own] += 1
        made.append(Group(kept, title, style, _details(folder, kept)))
    return Section(stream, split, made, repeated=len(found) - sum(len(g.records) for g in made))


def _differing(every: Sequence[dict[str, Any]]) -> set[str]:
    """The names of the settings in which some of these differ; compared with the first alone, since a search has thousands."""
    first = every[0]
    return {name for each in every for name in first.keys() | each.keys() if each.get(name) != first.get(name)}


def own(method: str) -> tuple[str, str] | None:
    """The loss and the classifier of a method when none is named; None for a method this version does not know."""
    known = methods().get(method)
    return (known.default_objective, known.default_classifier) if known else None


def spec(record: Record) -> Spec:
    """The run behind a record, its classifiers aside."""
    known, loss = methods().get(record["method"]), OBJECTIVES.get(record["loss"])
    # Not stated at their defaults, and a recipe may say otherwise by now.
    unsaid = omitted_at_default(known, loss) if known and loss else {}
    given = {name: record[name] for name in ("split", "order", "backbone") if record.get(name) is not None}
    return Spec(record["method"], record["stream"], loss=record["loss"], options=unsaid | record["options"], **given)


def _details(folder: Path, runs: Sequence[Record]) -> tuple[dict[str, Any], ...]:
    """Scores and confusion counts of the runs that have them, for the classifier of these records."""
    found = []
    for record in runs:
        path = Path(folder) / "details" / f"{record['run']}.json"
        try:
            whole = files.parsed(path.read_bytes())
            mine = whole["classifiers"].get(record["classifier"])
            if mine:
                found.append({key: mine[key] for key in ("average_scores", "confusion")} | {"labels": whole["labels"]})
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, AttributeError):
            raise MnemonError(f"{path} is not a file of run details; remove it and the report does without.") from None
    return tuple(found)
