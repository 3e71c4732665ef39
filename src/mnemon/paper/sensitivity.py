"""How much depends on what the paper leaves open: each study changes one choice and nothing else.

Nothing is chosen here, so the runs are tested on test images, with seeds 0 to 4. All other hyper-parameters are written out
below, at the values of our first tables (hybrid: those the paper prints), so that a study does not move when a recipe is
tuned anew. `mnemon reproduce sensitivity` makes the runs; docs/ambiguities.md has the tables, written from the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from mnemon.errors import unknown
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import estimate
from mnemon.paper.comparison import NOT_RUN
from mnemon.paper.plan import each_training_once
from mnemon.paper.results import CellRuns, Results
from mnemon.render import names

SEEDS = range(5)

# (method, stream) → options
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("hybrid", "split-mnist"): {"gamma": 0.1, "lr": 0.05, "divisor": "batch"},
    ("hybrid", "smooth-mnist"): {"gamma": 0.1, "lr": 0.05, "divisor": "batch"},
    ("hybrid", "split-cifar10"): {"gamma": 0.1, "lr": 0.2, "divisor": "batch"},
    ("hybrid", "split-cifar100-20"): {"gamma": 0.5, "lr": 0.35, "divisor": "active"},
    ("hybrid", "smooth-cifar10"): {"gamma": 0.1, "lr": 0.25, "divisor": "active"},
    ("hybrid", "smooth-cifar100"): {"gamma": 1.0, "lr": 0.5, "divisor": "active"},
    ("er", "split-mnist"): {"lr": 0.15},
    ("er", "smooth-mnist"): {"lr": 0.15},
    ("er", "split-cifar10"): {"lr": 0.05},
    ("er", "split-cifar100-20"): {"lr": 0.1},
    ("er", "smooth-cifar10"): {"lr": 0.1},
    ("er", "smooth-cifar100"): {"lr": 0.1},
    ("mir", "split-mnist"): {"lr": 0.05},
    ("mir", "split-cifar10"): {"lr": 0.05},
    ("mir", "split-cifar100-20"): {"lr": 0.05},
}
SPLIT = ("split-mnist", "split-cifar10", "split-cifar100-20")
SMOOTH = ("smooth-mnist", "smooth-cifar10", "smooth-cifar100")
STREAMS = (*SPLIT, *SMOOTH)


class Alternative(NamedTuple):
    """One row: a method, and what is changed."""

    label: str
    method: str
    classifier: str
    order: str = "natural"
    options: tuple[tuple[str, Any], ...] = ()
    spread: float | None = None
    ours: bool = False  # what the tables stand at, on every stream

    def spec(self, stream: str, seed: int) -> Spec:
        return Spec(
            self.method,
            stream if self.spread is None else f"{stream}-{self.spread}",
            seed,
            classifiers=(self.classifier,),
            order=self.order,
            options=SETTINGS[self.method, stream] | dict(self.options),
            cell="sensitivity",
        )


class Study(NamedTuple):
    name: str
    title: str
    streams: tuple[str, ...]
    alternatives: tuple[Alternative, ...]


STUDIES = (
    Study(
        "order",
        "Class order: sorted for every run, or shuffled for each seed",
        SPLIT,
        (
            Alternative("hybrid + NCM, natural", "hybrid", "ncm", ours=True),
            Alternative("hybrid + NCM, random", "hybrid", "ncm", order="random"),
            Alternative("ER + softmax, natural", "er", "softmax", ours=True),
            Alternative("ER + softmax, random", "er", "softmax", order="random"),
        ),
    ),
    Study(
        "divisor",
        "Divisor of Multi-Similarity: the anchors that mined a pair, or the whole batch",
        (*SPLIT, "smooth-mnist", "smooth-cifar10"),
        tuple(
            Alternative(f"hybrid + NCM, {divisor}", "hybrid", "ncm", options=(("divisor", divisor),))
            for divisor in ("active", "batch")
        ),
    ),
    Study(
        "forward",
        "New and replayed samples in one forward pass, or in one each",
        SPLIT,
        tuple(
            Alternative(
                f"{title} + {names.CLASSIFIERS[classifier]}, {forward}",
                method,
                classifier,
                options=(("forward", forward),),
                ours=forward == "joint",
            )
            for title, method, classifier in (
                ("hybrid", "hybrid", "ncm"),
                ("ER", "er", "softmax"),
                ("MIR", "mir", "softmax"),
            )
            for forward in ("joint", "separate")
        ),
    ),
    Study(
        "ncm",
        "Nearest class mean: on features as they are, normalised, or normalised with means of unit length",
        SPLIT,
        (
            Alternative("hybrid, features as they are", "hybrid", "ncm-raw"),
            Alternative("hybrid, normalised", "hybrid", "ncm", ours=True),
            Alternative("hybrid, normalised, unit means", "hybrid", "ncm-unit"),
            Alternative("ER, features as they are", "er", "ncm-raw"),
            Alternative("ER, normalised", "er", "ncm"),
            Alternative("ER, normalised, unit means", "er", "ncm-unit"),
        ),
    ),
    Study(
        "spread",
        "Spread of Smooth: σ of a class in units of n0",
        SMOOTH,
        tuple(
            Alternative(f"{title}, {label}", method, classifier, spread=spread, ours=spread == 0.5)
            for title, method, classifier in (("hybrid + NCM", "hybrid", "ncm"), ("ER + softmax", "er", "softmax"))
            for spread, label in (
                (0.03, "0.03 (n0/2 as a variance, nearly)"),
                (0.25, "0.25"),
                (0.45, "0.45"),
                (0.5, "0.5"),
                (1.0, "1"),
            )
        ),
    ),
)


def missing(results: Results, streams: Iterable[str]) -> list[Spec]:
    """The runs of these streams that have no record yet, each training once."""
    of_streams = set(streams)
    if strange := of_streams - set(STREAMS):
        raise unknown("stream of a study:", min(strange), STREAMS)
    absent = each_training_once(
        alternative.spec(stream, seed)
        for alternative, stream in _numbers(of_streams)
        for there in [_runs(results, alternative, stream).records]
        for seed in SEEDS
        if seed not in there
    )
    return [replace(spec, classifiers=tuple(sorted(spec.classifiers))) for spec in absent]


def count(results: Results, streams: Iterable[str]) -> tuple[int, int]:
    """How many numbers of the tables are complete, and how many there are."""
    whole = [len(_runs(results, *number).records) == len(SEEDS) for number in _numbers(set(streams))]
    return sum(whole), len(whole)


def _runs(results: Results, alternative: Alternative, stream: str) -> CellRuns:
    return results.runs(alternative.spec(stream, SEEDS[0]), alternative.classifier, SEEDS)


def _numbers(streams: set[str]) -> list[tuple[Alternative, str]]:
    """Each alternative of each study, on those of its streams."""
    each = [(study, stream) for study in STUDIES for stream in study.streams if stream in streams]
    return [(alternative, stream) for study, stream in each for alternative in study.alternatives]


def markdown(results: Results) -> str:
    """A table for each study: mean ± half-width of the 95 % interval, and the forgetting."""
    tables = []
    for study in STUDIES:
        lines = [
            f"**{study.title}**",
            "",
            "| | " + " | ".join(names.stream(s) for s in study.streams) + " |",
            "|---|" + "---|" * len(study.streams),
        ]
        for alternative in study.alternatives:
            label = f"{alternative.label} (our default)" if alternative.ours else alternative.label
            cells = [_cell(_runs(results, alternative, s)) for s in study.streams]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
        tables.append("\n".join([*lines, "", _held(study)]))
    return "\n\n".join(tables) + "\n"


def _held(study: Study) -> str:
    """At which values each method of a study stands, but for what the study changes."""
    changed = {name for alternative in study.alternatives for name, _ in alternative.options}
    said = []
    for method in dict.fromkeys(alternative.method for alternative in study.alternatives):
        at: dict[str, list[str]] = {}  # settings → streams
        for stream in study.streams:
            values = {name: value for name, value in SETTINGS[method, stream].items() if name not in changed}
            at.setdefault(names.settings(values), []).append(names.stream(stream))
        said.append(f"{names.METHODS[method]} at " + "; ".join(f"{s} ({', '.join(on)})" for s, on in at.items()))
    return ". ".join(said) + "."


def _cell(runs: CellRuns) -> str:
    if runs.estimate is None:
        return NOT_RUN
    text, made = runs.estimate.text(), runs.records.values()
    if forgetting := estimate(r["average_forgetting"] for r in made):
        text += f" ({names.fixed(forgetting.mean)})"
    return text if len(made) == len(SEEDS) else f"{text}, {len(made)} of {len(SEEDS)} runs"
