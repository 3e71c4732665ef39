"""The search of a grid, by halving where it is large: all candidates on the first seed, the best of them on all seeds."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.recipes.grids import Grid
from mnemon.experiments.scenario import dataset_checksum
from mnemon.experiments.tuning import log
from mnemon.experiments.tuning.candidate import Candidate
from mnemon.experiments.tuning.rounds import run_round, spec_of
from mnemon.experiments.tuning.searched import Protocol, RowSetting, Search, choose_at_recipe, usual_grid
from mnemon.experiments.tuning.words import parse_values, read_words
from mnemon.learning.build import Choice
from mnemon.runtime.device import choose_device
from mnemon.runtime.progress import SILENT, Progress

BEST = 15  # candidates that go on from the first seed to all of them
FORM = "OPTION=VALUE,VALUE (lr=0.05,0.1)"


@dataclass(kw_only=True)
class GridSearch(Search):
    """A search in which every candidate of a grid is tried."""

    grid: Grid
    rounds: list[dict[str, Any]] = field(default_factory=list)
    earlier: list[Candidate] = field(default_factory=list)  # of the grids that the log has beside the one asked for
    finished_earlier: set[str] = field(default_factory=set)  # the keys of candidates that had run on all seeds
    earlier_commands: list[str] = field(default_factory=list)

    @property
    def names(self) -> Collection[str]:
        return self.grid.keys()

    @property
    def finalists(self) -> list[Candidate]:
        """Those of the last round that did not diverge, the best first."""
        return [c for c in self.candidates if c.rounds == len(self.rounds) and not c.diverged]

    @property
    def finished(self) -> bool:
        seeds: list[int] = self.rounds[-1]["seeds"]
        return seeds == self.seeds

    @property
    def size(self) -> str:
        return f"{len(self.candidates)} candidates"

    def at_the_edge(self) -> list[str]:
        """Options whose chosen number is the first or last of its grid."""
        found = []
        for name, tried in self.grid.items():
            value, numbers = self.chosen.values[name], [v for v in tried if not isinstance(v, str)]
            if len(numbers) > 1 and value in (min(numbers), max(numbers)):
                found.append(f"{name} {value} is the {'smallest' if value == min(numbers) else 'largest'} of its grid")
        return found

    def described(self) -> dict[str, Any]:
        about = {"grid": self.grid, "fixed": self.fixed, "seeds": self.seeds, "rounds": self.rounds}
        return ({"earlier_commands": self.earlier_commands} if self.earlier_commands else {}) | about

    def log_line(self, candidate: Candidate) -> dict[str, Any]:
        return {"rounds": candidate.rounds}

    def sentences(self) -> list[str]:
        said = f"earlier: tried before with the same seeds and fixed values, and counted here: {len(self.earlier)}"
        return super().sentences() + ([said] if self.earlier else [])

    def join(self, found: dict[str, Any]) -> None:
        """Take in the candidates of the log: as if the grids had been one."""
        here = {c.key for c in self.candidates}
        for line in found["candidates"]:
            candidate = Candidate({name: line["values"][name] for name in self.grid})
            if candidate.key not in here:
                self.earlier.append(candidate)
            if len(line["accuracies"]) + len(line["diverged"]) >= len(self.seeds):
                self.finished_earlier.add(candidate.key)
        self.candidates += self.earlier
        self.grid = {
            name: tuple(dict.fromkeys([*found["grid"].get(name, ()), *tried])) for name, tried in self.grid.items()
        }
        commands = [*found.get("earlier_commands", ()), found["command"]]
        self.earlier_commands = [each for each in dict.fromkeys(commands) if each != self.command]

    def going_on(self, best: int) -> list[Candidate]:
        """The best so far, and those that have run on all seeds already."""
        return [c for i, c in enumerate(self.finalists) if i < best or c.key in self.finished_earlier]


def search(
    method: str,
    stream: str,
    out: Path,
    *,
    loss: str | None = None,
    classifiers: Sequence[str] = (),
    row: RowSetting | None = None,
    held: Protocol | None = None,
    grid: Sequence[str] = (),
    seeds: Sequence[int] = (100, 101, 102),
    best: int = BEST,
    device: str = "auto",
    pool: str | None = None,
    progress: Progress = SILENT,
    command: str = "",
) -> GridSearch:
    """Search the grid (`grid`: words like lr=0.05,0.1; the paper's where there are none) and return all that was found.

    `classifiers`: those a candidate may be read by; none: the row's, or the method's own. `row`: the search is for this row,
    and what is not searched stands at the row's values instead of the recipe's. `held`: what is not at the paper's protocol.
    """
    if best < 1:
        raise MnemonError(f"at least one candidate must go on to all seeds, not {best}.")
    choice = choose_at_recipe(
        method, stream, loss=loss, classifiers=classifiers, row=row, held=held or Protocol(), seeds=seeds
    )
    tried = parse_grid(grid, choice) if grid else usual_grid(row, method, choice.objective.name)
    if not tried:
        raise MnemonError(
            f"{method} has no option that is searched by itself; name some, as in --grid OPTION=VALUE,VALUE."
        )
    candidates = [Candidate(dict(zip(tried, values, strict=True))) for values in itertools.product(*tried.values())]
    where = choose_device(device if pool is None else "auto")  # a cluster may have what this machine lacks
    found = GridSearch(
        method=method,
        stream=str(protocol.parse(stream)),
        seeds=list(seeds),
        out=out,
        command=command,
        choice=choice,
        row=row,
        held=held or Protocol(),
        candidates=candidates,
        grid=tried,
    )
    for candidate in found.candidates:
        spec_of(found, candidate, seeds[0]).choice()  # mistakes are found before anything is written
    found.checksum = dataset_checksum(stream, where)
    found.recalled = log.recall(found)
    if before := log.claim(found):
        with log.explained(found):
            found.join(before)
    halving = len(found.candidates) > best and len(seeds) > 1
    for number, part in enumerate((found.seeds[:1], found.seeds) if halving else (found.seeds,), 1):
        going = found.candidates if number == 1 else found.going_on(best)
        run_round(found, going, part, name=f"round {number}", device=device, pool=pool, progress=progress)
        found.rounds.append({"seeds": part, "candidates": len(going)})
        log.write(found)
        if not found.finalists:
            raise MnemonError(
                f"no candidate is left, since those that went on to all seeds diverged; {found.log} has them all. "
                "Try a grid with a smaller lr."
            )
    return found


def parse_grid(words: Sequence[str], choice: Choice) -> Grid:
    """lr=0.05,0.1 → {"lr": (0.05, 0.1)}, in the option's own type."""
    return {word.name: parse_values(word) for word in read_words(words, choice, "grid", FORM)}
