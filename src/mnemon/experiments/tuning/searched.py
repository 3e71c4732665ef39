"""What a search is about, and what it found."""

from __future__ import annotations

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
FIXED = ("batch_size", "replay_size", "memory_size")  # the protocol's, not for choosing


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
        lines = [f"chosen: {self._named(self.chosen)}", f"recipe: {said(self.recipe)} ({origin})"]
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

    def _named(self, candidate: Candidate) -> str:
        """Its values, and where several were tried its classifier."""
        return said(candidate.values) + (f", read by {candidate.classifier}" if len(self.classifiers) > 1 else "")

    @property
    def source(self) -> str:
        """Where the chosen values come from, in words."""
        on = f"{len(self.candidates)} candidates, {listed(self.seeds)}"
        return f"mnemon tune, on validation: {on}, accuracy {estimate(self.chosen.accuracies)}"

    def keep(self) -> str:
        """The chosen values become the recipe of the cell; returns it in words."""
        name = protocol.parse(self.stream)
        check_keep(name)
        values = recipes.recipe(self.method, self.loss, name.kind, name.dataset) | self.chosen.values
        recipes.keep(self.cell, recipes.Recipe(values, self.source))
        return f"{' / '.join(self.cell)}: {said(values)} ({self.source})"


def check_keep(name: protocol.StreamName) -> None:
    """Refuse a stream that deviates from those recipes are kept for."""
    if deviation := name.schedule.deviation:
        raise MnemonError(f"the recipes are for the paper's {name.schedule.title} streams, and {name} has {deviation}.")
