"""The paper's way to choose hyper-parameters: every candidate of a grid on the validation split, the best mean wins.

By halving where the grid is large: all candidates on the first seed, the best of them on all seeds. The seeds are none
of the tables', the samples none of the test set's. With several classifiers one training serves all of them, and a
candidate counts by the one that reads it best. The search is logged in OUT/tuning/METHOD-LOSS-STREAM.json (and the
searched options behind it, where they are not the usual ones), whole after each round; its runs are ordinary runs of the
folder, so that a search that was stopped goes on where it was.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.errors import Diverged, MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.recipes import grids, recipes
from mnemon.experiments.recipes.grids import Grid
from mnemon.experiments.record import Record
from mnemon.experiments.recording import versions
from mnemon.experiments.runner import run_all
from mnemon.experiments.scenario import dataset_checksum
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate, estimate, fixed
from mnemon.experiments.store import ResultFolder
from mnemon.learning import options
from mnemon.learning.build import Choice
from mnemon.learning.named import in_file_name
from mnemon.runtime.device import choose_device
from mnemon.runtime.progress import SILENT, Progress

logger = logging.getLogger(__name__)
FIRST_SEED = 100  # the smaller ones belong to the tables
BEST = 15  # candidates that go on from the first seed to all of them
FIXED = ("batch_size", "replay_size", "memory_size")  # the protocol's, not for choosing


@dataclass
class Candidate:
    """Values for the options of the grid, and how they did on validation."""

    values: dict[str, Any]
    records: dict[int, dict[str, Record]] = field(default_factory=dict)  # by seed and classifier
    diverged: set[int] = field(default_factory=set)  # seeds
    recalled: set[int] = field(default_factory=set)  # seeds that diverged in an earlier search
    rounds: int = 0  # in how many it took part

    @property
    def means(self) -> dict[str, float]:
        """The mean accuracy of each classifier over the seeds; all seeds have the same classifiers."""
        classifiers = next(iter(self.records.values()), {})
        return {name: _mean(run[name]["average_accuracy"] for run in self.records.values()) for name in classifiers}

    @property
    def classifier(self) -> str | None:
        """The one with the best mean, of equals the first that was named; None without a run."""
        means = self.means
        return max(means, key=lambda name: means[name]) if means else None

    @property
    def best(self) -> dict[int, Record]:
        """The records of the best classifier, by seed."""
        name = self.classifier
        return {} if name is None else {seed: self.records[seed][name] for seed in sorted(self.records)}

    @property
    def accuracies(self) -> list[float]:
        return [record["average_accuracy"] for record in self.best.values()]

    @property
    def rank(self) -> tuple[int, float]:
        """Small is good: who went on before who did not, then the mean; a diverged one is the worst of all."""
        if self.diverged or not self.records:
            return (1, 0.0)
        return (-self.rounds, -_mean(self.accuracies))


@dataclass(frozen=True)
class RowSetting:
    """The setting of a row that has no recipe of its own: a row of a table beyond the paper's (paper/beyond.py)."""

    row: str  # the first word of the log's name
    classifiers: tuple[str, ...]
    options: dict[str, Any]  # the values of what the grid does not try
    grid: Grid  # what is searched where the caller names no grid
    source: str  # where the values come from, in words


@dataclass
class Search:
    """What is searched, where, and what was found."""

    method: str
    stream: str
    loss: str
    grid: Grid
    seeds: list[int]
    best: int
    out: Path
    command: str
    choice: Choice  # at the recipe, or at the setting of the row
    classifiers: tuple[str, ...]
    row: RowSetting | None
    checksum: str
    candidates: list[Candidate]  # the best first, once a round is over
    rounds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """Searches over different options or classifiers each have their own: one does not write over another."""
        usual = self.row.grid if self.row else grids.grid(self.method, self.loss)
        over = "" if self.grid.keys() == usual.keys() else "-" + "-".join(sorted(self.grid))
        if self.classifiers != self._usual_classifiers:
            over += "-" + "-".join(in_file_name(name) for name in self.classifiers)
        name = self.row.row if self.row else f"{self.method}-{self.loss}"
        return self.out / "tuning" / f"{name}-{self.stream}{over}.json"

    @property
    def _usual_classifiers(self) -> tuple[str, ...]:
        if self.row:
            return self.row.classifiers
        return (Spec(self.method, self.stream, loss=self.loss).choice().classifiers[0].name,)

    @property
    def recipe(self) -> dict[str, Any]:
        """The present values of the options that are searched."""
        return {name: self.choice.every_option()[name] for name in self.grid}

    @property
    def cell(self) -> recipes.Name:
        name = protocol.parse(self.stream)
        return self.method, self.loss, f"{name.kind}-{name.dataset}"

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0]

    @property
    def finalists(self) -> list[Candidate]:
        """Those of the last round that did not diverge, the best first."""
        return [c for c in self.candidates if c.rounds == len(self.rounds) and not c.diverged]

    def behind(self, other: Candidate) -> Estimate:
        """By how much a finalist is behind the chosen one: the paired difference."""
        gap = estimate(a - b for a, b in zip(self.chosen.accuracies, other.accuracies, strict=True))
        assert gap is not None  # a finalist has runs
        return gap

    def in_noise(self) -> list[Candidate]:
        """The other finalists that are not significantly different from the chosen one on these seeds."""
        gaps = [(other, self.behind(other)) for other in self.finalists[1:]]
        return [other for other, gap in gaps if gap.mean == 0 or (gap.half is not None and gap.sign == 0)]

    def at_the_edge(self) -> list[str]:
        """Options whose chosen number is the first or last of its grid: there may be better ones beyond."""
        found = []
        for name, tried in self.grid.items():
            value, numbers = self.chosen.values[name], [v for v in tried if not isinstance(v, str)]
            if len(numbers) > 1 and value in (min(numbers), max(numbers)):
                found.append(f"{name} {value} is the {'smallest' if value == min(numbers) else 'largest'} of its grid")
        return found

    def sentences(self) -> list[str]:
        """What is to be known about the choice."""
        name = protocol.parse(self.stream)
        origin = self.row.source if self.row else recipes.source(self.method, self.loss, name.kind, name.dataset)
        said = [f"chosen: {self._named(self.chosen)}", f"recipe: {_said(self.recipe)} ({origin})"]
        if len(self.finalists) > 1:
            gap = self.behind(self.finalists[1])
            line = f"runner-up: {self._named(self.finalists[1])}, {fixed(gap.mean)} behind"
            if gap.half is None:
                said.append(line + "; one seed cannot tell noise from difference")
            else:
                said.append(line + f" (95 % interval of the difference, seed by seed: ± {fixed(gap.half)})")
                if noise := len(self.in_noise()):
                    others = f"{noise} of {len(self.finalists) - 1} other finalists"
                    said.append(f"noise: {others} do not differ significantly from the chosen one on these seeds")
        if edges := self.at_the_edge():
            said.append(f"edge: {', '.join(edges)}; values beyond it were not tried")
        return said

    def _named(self, candidate: Candidate) -> str:
        """Its values, and where several were tried its classifier."""
        return _said(candidate.values) + (f", read by {candidate.classifier}" if len(self.classifiers) > 1 else "")

    @property
    def source(self) -> str:
        """Where the chosen values come from, in words."""
        on = f"{len(self.candidates)} candidates, {_listed(self.seeds)}"
        return f"mnemon tune, on validation: {on}, accuracy {estimate(self.chosen.accuracies)}"

    def keep(self) -> str:
        """The chosen values become the recipe of the cell; returns it in words."""
        name = protocol.parse(self.stream)
        check_keep(name)
        values = recipes.recipe(self.method, self.loss, name.kind, name.dataset) | self.chosen.values
        recipes.keep(self.cell, recipes.Recipe(values, self.source))
        return f"{' / '.join(self.cell)}: {_said(values)} ({self.source})"


def check_keep(name: protocol.StreamName) -> None:
    """Refuse a stream that deviates from those recipes are kept for."""
    if deviation := name.schedule.deviation:
        raise MnemonError(f"the recipes are for the paper's {name.schedule.title} streams, and {name} has {deviation}.")


def search(
    method: str,
    stream: str,
    out: Path,
    *,
    loss: str | None = None,
    classifiers: Sequence[str] = (),
    row: RowSetting | None = None,
    grid: Sequence[str] = (),
    seeds: Sequence[int] = (100, 101, 102),
    best: int = BEST,
    device: str = "auto",
    pool: str | None = None,
    progress: Progress = SILENT,
    command: str = "",
) -> Search:
    """Search the grid (`grid`: words like lr=0.05,0.1; the paper's where there are none) and return all that was found.

    `classifiers`: those a candidate may be read by; none: the row's, or the method's own. `row`: the search is for this row,
    and what is not searched stands at the row's values instead of the recipe's.
    """
    if min(seeds) < FIRST_SEED:
        raise MnemonError(f"seeds below {FIRST_SEED} are the tables'; hyper-parameters are chosen on others (100-102).")
    if best < 1:
        raise MnemonError(f"at least one candidate must go on to all seeds, not {best}.")
    given, read_by = (dict(row.options), classifiers or row.classifiers) if row else ({}, classifiers)
    at_recipe = Spec(method, stream, loss=loss, classifiers=tuple(read_by), options=given).choice()
    loss = at_recipe.objective.name
    tried = _parse(grid, at_recipe) if grid else row.grid if row else grids.grid(method, loss)
    if not tried:
        raise MnemonError(
            f"{method} has no option that is searched by itself; name some, as in --grid OPTION=VALUE,VALUE."
        )
    candidates = [Candidate(dict(zip(tried, values, strict=True))) for values in itertools.product(*tried.values())]
    where = choose_device(device if pool is None else "auto")  # a cluster may have what this machine lacks
    found = Search(
        method=method,
        stream=str(protocol.parse(stream)),
        loss=loss,
        grid=tried,
        seeds=list(seeds),
        best=best,
        out=out,
        command=command,
        choice=at_recipe,
        classifiers=tuple(classifier.name for classifier in at_recipe.classifiers),
        row=row,
        checksum="",
        candidates=candidates,
    )
    for candidate in candidates:
        _spec(found, candidate, seeds[0]).choice()  # mistakes are found before anything is written
    found.checksum = dataset_checksum(stream, where)
    _recall(found)
    halving = len(candidates) > best and len(seeds) > 1
    for part in (found.seeds[:1], found.seeds) if halving else (found.seeds,):
        going = candidates if not found.rounds else found.finalists[:best]
        _round(found, going, part, device, pool, progress)
        if not found.finalists:
            raise MnemonError(f"every candidate diverged; {found.log} has them all. Try a grid with a smaller lr.")
    return found


def _round(
    search: Search, going: list[Candidate], seeds: list[int], device: str, pool: str | None, progress: Progress
) -> None:
    """The candidates that go on, on these seeds."""
    for candidate in going:
        candidate.diverged |= candidate.recalled & set(seeds)
    wanted = [(c, seed) for c in going for seed in seeds if seed not in c.diverged]
    _collect(search, wanted)
    missing = [(c, seed) for c, seed in wanted if seed not in c.records]
    number = len(search.rounds) + 1
    known = f"; {len(wanted) - len(missing)} of them known" if len(missing) < len(wanted) else ""
    plural = "" if len(going) == 1 else "s"
    logger.info(f"round {number}: {len(going)} candidate{plural} on {_listed(seeds)}, {len(wanted)} runs{known}")
    if missing:

        def title(r: Record) -> str:
            return _said({name: r["options"][name] for name in search.grid if name in r["options"]})

        specs = [_spec(search, c, seed) for c, seed in missing]
        with contextlib.suppress(Diverged):  # those ended alone; they are the ones without a record
            run_all(specs, search.out, device=device, pool=pool, progress=progress, title=title)
        _collect(search, missing)
        for candidate, seed in missing:
            if seed not in candidate.records:
                candidate.diverged.add(seed)
    for candidate in going:
        candidate.rounds += 1
    search.rounds.append({"seeds": seeds, "candidates": len(going)})
    search.candidates = sorted(search.candidates, key=lambda c: c.rank)  # stable: of equals the first in the grid
    _write(search)


def _collect(search: Search, wanted: list[tuple[Candidate, int]]) -> None:
    """Take what is finished from the folder: the seeds that every classifier has a record of."""
    there = RecordIndex(ResultFolder(search.out).read())
    for candidate in search.candidates:
        seeds = [seed for other, seed in wanted if other is candidate]
        spec = _spec(search, candidate, search.seeds[0])
        by_name = {name: there.like(spec, name, search.checksum) for name in search.classifiers} if seeds else {}
        for seed in seeds:
            if all(seed in found for found in by_name.values()):
                candidate.records[seed] = {name: found[seed] for name, found in by_name.items()}


def _spec(search: Search, candidate: Candidate, seed: int) -> Spec:
    given = (search.row.options if search.row else {}) | candidate.values
    about = (search.method, search.stream, seed, search.loss, search.classifiers)
    return Spec(*about, split="valid", options=given, cell="tune")


def _parse(words: Sequence[str], choice: Choice) -> Grid:
    """lr=0.05,0.1 → {"lr": (0.05, 0.1)}, in the option's own type."""
    fields = choice.fields()
    found: Grid = {}
    for word in words:
        name, equals, values = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not values:
            raise MnemonError(f"a grid is written as OPTION=VALUE,VALUE (lr=0.05,0.1), not {word!r}.")
        if name in FIXED:
            raise MnemonError(f"{name} belongs to the protocol; it is not chosen on validation.")
        if name not in fields:
            known = ", ".join(sorted(n for n in choice.options() if n not in FIXED))
            raise MnemonError(
                f"{choice.method.name} with the loss {choice.objective.name} has no option {name!r} to tune; it has {known}."
            )
        if name in found:
            raise MnemonError(f"{name} is in the grid twice.")
        found[name] = tuple(dict.fromkeys(options.parse(fields[name], text) for text in values.split(",")))
    return found


# --- the log


def _write(search: Search) -> None:
    """One line a candidate; the same search gives the same bytes."""
    several = len(search.classifiers) > 1
    head = {
        **({"row": search.row.row} if search.row else {}),
        "method": search.method,
        "loss": search.loss,
        **({"classifiers": search.classifiers} if several else {}),
        "classifier": search.chosen.classifier if several else search.classifiers[0],
        "stream": search.stream,
        "split": "valid",
        "command": search.command,
        "grid": search.grid,
        "fixed": _fixed(search),
        "seeds": search.seeds,
        "rounds": search.rounds,
        "finished": search.rounds[-1]["seeds"] == search.seeds,
        "chosen": search.chosen.values if search.finalists else None,
        "recipe": search.recipe,
        "data": {"name": protocol.parse(search.stream).dataset, "checksum": search.checksum},
        "versions": versions(),
    }
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    rows = ",\n".join("  " + json.dumps(_line(c, several)) for c in search.candidates)
    with files.explained(f"the log {search.log} cannot be written"):
        search.log.parent.mkdir(parents=True, exist_ok=True)
        files.write(search.log, ("{\n" + ",\n".join(lines) + f',\n "candidates": [\n{rows}\n ]\n}}\n').encode())


def _line(candidate: Candidate, several: bool) -> dict[str, Any]:
    """A candidate; with several classifiers the one that reads it best, and the mean of each."""
    runs = candidate.best
    whole = bool(runs) and not candidate.diverged
    return {
        "values": candidate.values,
        **({"classifier": candidate.classifier, "means": candidate.means} if several else {}),
        "mean": _mean(candidate.accuracies) if whole else None,
        "accuracies": {str(seed): r["average_accuracy"] for seed, r in runs.items()},
        "diverged": sorted(candidate.diverged),
        "rounds": candidate.rounds,
        "runs": [r["run"] for r in runs.values()],
        "devices": sorted({r["device"] for r in runs.values()}),
    }


def _recall(search: Search) -> None:
    """What an earlier search of this cell saw diverge has no record; its log knows."""
    try:
        log = files.parsed(search.log.read_bytes())
        same = log["data"]["checksum"] == search.checksum and log["fixed"] == _fixed(search)
        known = {json.dumps(c["values"], sort_keys=True): set(map(int, c["diverged"])) for c in log["candidates"]}
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise MnemonError(f"{search.log} is not the log of a search; repair or remove it.") from None
    for candidate in search.candidates if same else ():
        candidate.recalled = known.get(json.dumps(candidate.values, sort_keys=True), set())


def _fixed(search: Search) -> dict[str, Any]:
    """The options that are the same for all candidates."""
    return {name: value for name, value in search.choice.options().items() if name not in search.grid}


def _mean(values: Iterable[float]) -> float:
    """The same number on every version of Python, so that two that are equal are so everywhere."""
    known = list(values)
    return math.fsum(known) / len(known)


def _said(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _listed(seeds: Sequence[int]) -> str:
    """seeds 100-102; seed 100."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    whole = list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]}-{seeds[-1]}" if whole else f"seeds {','.join(map(str, seeds))}"
