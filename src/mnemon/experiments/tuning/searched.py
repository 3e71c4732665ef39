"""What a search is about, and what it found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.recipes import grids, recipes
from mnemon.experiments.recipes.grids import Grid
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate, estimate, fixed
from mnemon.experiments.tuning.candidate import Candidate, listed, said
from mnemon.learning.build import Choice
from mnemon.learning.named import in_file_name

FIRST_SEED = 100  # the smaller ones belong to the tables


@dataclass(frozen=True)
class RowSetting:
    """The setting of a row that has no recipe of its own: a row of a table beyond the paper's (paper/beyond.py)."""

    row: str  # the first word of the log's name
    classifiers: tuple[str, ...]
    options: dict[str, Any]  # the values of what the grid does not try
    grid: Grid  # what is searched where the caller names no grid
    source: str  # where the values come from, in words


@dataclass(frozen=True)
class Protocol:
    """What a search holds at other values than the paper's protocol; recipes are not kept from it."""

    options: dict[str, int] = field(default_factory=dict)  # of words.FIXED
    backbone: str | None = None
    order: str = "natural"

    @property
    def given(self) -> dict[str, Any]:
        """What is other than usual, by name."""
        order = {} if self.order == "natural" else {"order": self.order}
        return self.options | ({} if self.backbone is None else {"backbone": self.backbone}) | order


@dataclass(kw_only=True)
class Search(ABC):
    """What is searched, where, and what was found; a subclass says which candidates are tried."""

    method: str
    stream: str
    seeds: list[int]
    out: Path
    command: str
    choice: Choice  # at the recipe, or at the setting of the row
    row: RowSetting | None
    held: Protocol = field(default_factory=Protocol)
    checksum: str = ""  # of the dataset
    candidates: list[Candidate] = field(default_factory=list)  # the best first, once a round is over
    recalled: dict[str, set[int]] = field(default_factory=dict)  # candidate → seeds that diverged in an earlier search
    number: int = 1  # of the log, among those of searches that differ in seeds or fixed values only

    @property
    @abstractmethod
    def names(self) -> Collection[str]:
        """The options that are searched."""

    @property
    @abstractmethod
    def finalists(self) -> list[Candidate]:
        """Those that went furthest and did not diverge, the best first."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether nothing is left to be tried."""

    @property
    @abstractmethod
    def size(self) -> str:
        """How much was tried, in words."""

    @abstractmethod
    def at_the_edge(self) -> list[str]:
        """Options whose chosen number is at an end of what was tried: there may be better ones beyond."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What is tried, for the log."""

    @property
    def variant(self) -> str:
        """What the name of the log says of how was searched; nothing of the paper's way."""
        return ""

    def log_line(self, candidate: Candidate) -> dict[str, Any]:
        """What the log says of a candidate beside its values and results."""
        return {}

    @property
    def loss(self) -> str:
        return self.choice.objective.name

    @property
    def classifiers(self) -> tuple[str, ...]:
        return tuple(classifier.name for classifier in self.choice.classifiers)

    @property
    def log(self) -> Path:
        """Searches over different options, classifiers, seeds or fixed values each have their own: one does not write over
        another."""
        over = self.variant
        if self.names != usual_grid(self.row, self.method, self.loss).keys():
            over += "-" + "-".join(sorted(self.names))
        if self.classifiers != self._usual_classifiers:
            over += "-" + "-".join(in_file_name(name) for name in self.classifiers)
        over += "".join(f"-{name}={in_file_name(str(value))}" for name, value in self.held.given.items())
        name = self.row.row if self.row else f"{self.method}-{self.loss}"
        number = "" if self.number == 1 else f".{self.number}"
        return self.out / "tuning" / f"{name}-{self.stream}{over}{number}.json"

    @property
    def _usual_classifiers(self) -> tuple[str, ...]:
        if self.row:
            return self.row.classifiers
        return (Spec(self.method, self.stream, loss=self.loss).choice().classifiers[0].name,)

    @property
    def recipe(self) -> dict[str, Any]:
        """The present values of the options that are searched."""
        return {name: self.choice.every_option()[name] for name in self.names}

    @property
    def fixed(self) -> dict[str, Any]:
        """The options that are the same for all candidates."""
        return {name: value for name, value in self.choice.options().items() if name not in self.names}

    @property
    def cell(self) -> recipes.Name:
        name = protocol.parse(self.stream)
        return self.method, self.loss, f"{name.kind}-{name.dataset}"

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0]

    def behind(self, other: Candidate) -> Estimate:
        """By how much a finalist is behind the chosen one: the paired difference."""
        gap = estimate(a - b for a, b in zip(self.chosen.accuracies, other.accuracies, strict=True))
        assert gap is not None  # a finalist has runs
        return gap

    def in_noise(self) -> list[Candidate]:
        """The other finalists that are not significantly different from the chosen one on these seeds."""
        gaps = [(other, self.behind(other)) for other in self.finalists[1:]]
        return [other for other, gap in gaps if gap.mean == 0 or (gap.half is not None and gap.sign == 0)]

    def sentences(self) -> list[str]:
        """What is to be known about the choice."""
        lines = [f"chosen: {self._named(self.chosen)}", f"recipe: {said(self.recipe)} ({self._origin()})"]
        if len(self.finalists) > 1:
            gap = self.behind(self.finalists[1])
            line = f"runner-up: {self._named(self.finalists[1])}, {fixed(gap.mean)} behind"
            if gap.half is None:
                lines.append(line + "; one seed cannot tell noise from difference")
            else:
                lines.append(line + f" (95 % interval of the difference, seed by seed: ± {fixed(gap.half)})")
                if noise := len(self.in_noise()):
                    others = f"{noise} of {len(self.finalists) - 1} other finalists"
                    lines.append(f"noise: {others} do not differ significantly from the chosen one on these seeds")
        if edges := self.at_the_edge():
            lines.append(f"edge: {', '.join(edges)}; values beyond it were not tried")
        return lines

    def _origin(self) -> str:
        """Where the present values come from, in words. A cell that is borrowed need not speak of all of them."""
        if self.row:
            return self.row.source
        name = protocol.parse(self.stream)
        cell = self.method, self.loss, name.kind, name.dataset
        known = [option for option in self.names if option in recipes.recipe(*cell)]
        if self.cell in recipes.cells() or len(known) == len(self.names):
            return recipes.source(*cell)
        if not known:
            return "defaults of the method"
        return f"{', '.join(known)}: {recipes.source(*cell)}; the others: defaults of the method"

    def _named(self, candidate: Candidate) -> str:
        """Its values, and where several were tried its classifier."""
        return said(candidate.values) + (f", read by {candidate.classifier}" if len(self.classifiers) > 1 else "")

    @property
    def source(self) -> str:
        """Where the chosen values come from, in words."""
        on = f"{self.size}, {listed(self.seeds)}"
        return f"mnemon tune, on validation: {on}, accuracy {estimate(self.chosen.accuracies)}"

    def keep(self) -> str:
        """The chosen values become the recipe of the cell; returns it in words."""
        name = protocol.parse(self.stream)
        check_keep(name, self.held)
        values = recipes.recipe(self.method, self.loss, name.kind, name.dataset) | self.chosen.values
        recipes.keep(self.cell, recipes.Recipe(values, self.source))
        return f"{' / '.join(self.cell)}: {said(values)} ({self.source})"


def check_keep(name: protocol.StreamName, held: Protocol) -> None:
    """Refuse a stream or a protocol that deviates from those recipes are kept for."""
    if held.given:
        raise MnemonError(
            f"the recipes are for the paper's protocol, and this search has another {' and '.join(held.given)}; leave out "
            "--keep and give the chosen values to mnemon run."
        )
    if deviation := name.schedule.deviation:
        raise MnemonError(f"the recipes are for the paper's {name.schedule.title} streams, and {name} has {deviation}.")


def choose_at_recipe(
    method: str,
    stream: str,
    *,
    loss: str | None,
    classifiers: Sequence[str],
    row: RowSetting | None,
    held: Protocol,
    seeds: Sequence[int],
) -> Choice:
    """What a search starts from, every option at the recipe or at the row's value; seeds of the tables are refused."""
    if min(seeds) < FIRST_SEED:
        raise MnemonError(
            f"seeds below {FIRST_SEED} are the tables'; hyper-parameters are chosen on others: name a range (100-102), since a "
            "number alone counts from 0."
        )
    given, read_by = (dict(row.options), classifiers or row.classifiers) if row else ({}, classifiers)
    about: dict[str, Any] = {
        "loss": loss,
        "classifiers": tuple(read_by),
        "order": held.order,
        "backbone": held.backbone,
    }
    return Spec(method, stream, options=given | held.options, **about).choice()


def usual_grid(row: RowSetting | None, method: str, loss: str) -> Grid:
    """What is searched where the caller names nothing; empty where a method has nothing to search by itself."""
    return row.grid if row else grids.grid(method, loss)
