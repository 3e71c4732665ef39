"""The search of a space: batches of proposals that learn from the batches before, seed after seed, without the hopeless.

**The records are the study.** A search always begins with its first batch. What a batch proposes depends on the seed of the
search and on the results of the batches before, not on the order in which runs finish; runs that are in the folder are taken
from there. So a search that was killed goes through the same trials again, without running them, and goes on.

**Pruning**: after each seed but the last, a candidate whose mean on the seeds so far is below the median of all candidates
that have run on these seeds, of this batch and of those before, gets no further seeds.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError, check_known
from mnemon.experiments import protocol
from mnemon.experiments.scenario import dataset_checksum
from mnemon.experiments.stats import estimate
from mnemon.experiments.tuning import log
from mnemon.experiments.tuning.candidate import Candidate, said
from mnemon.experiments.tuning.proposals import SAMPLERS, Told, propose, sampler_version
from mnemon.experiments.tuning.rounds import run_round, spec_of
from mnemon.experiments.tuning.searched import Protocol, RowSetting, Search, choose_at_recipe, usual_grid
from mnemon.experiments.tuning.space import Range, Space, ends, parse_space, space_of
from mnemon.runtime.device import choose_device
from mnemon.runtime.progress import SILENT, Progress

logger = logging.getLogger(__name__)
TRIALS = 64
BATCH = 16  # trials proposed at once: their runs fill a stack on a GPU


@dataclass(kw_only=True)
class SpaceSearch(Search):
    """A search in which candidates are proposed, batch after batch."""

    space: Space
    sampler: str
    trials: int  # to be proposed in all
    batch: int
    search_seed: int
    optuna: str = ""  # its version: another may propose otherwise
    asked: list[Candidate] = field(default_factory=list)  # trial after trial; equal values are one candidate

    @property
    def names(self) -> Collection[str]:
        return self.space.keys()

    @property
    def finalists(self) -> list[Candidate]:
        """Those that have run on all seeds, the best first."""
        return [c for c in self.candidates if c.rounds == len(self.seeds) and not c.diverged]

    @property
    def finished(self) -> bool:
        return len(self.asked) == self.trials and all(
            c.pruned or c.diverged or c.rounds == len(self.seeds) for c in self.candidates
        )

    @property
    def size(self) -> str:
        return f"{self.trials} trials of {self.sampler}, {sum(c.pruned for c in self.candidates)} pruned"

    @property
    def variant(self) -> str:
        return f"-{self.sampler}" + (f"{self.search_seed}" if self.search_seed else "")

    def at_the_edge(self) -> list[str]:
        """Options whose chosen number is at an end of its range."""
        found = []
        for name, tried in self.space.items():
            value = self.chosen.values[name]
            if isinstance(tried, Range) and (end := tried.edge(value)):
                found.append(f"{name} {value} is at the {end} end of its range")
        return found

    def described(self) -> dict[str, Any]:
        space = {name: str(tried) if isinstance(tried, Range) else tried for name, tried in self.space.items()}
        about = {"search": self.sampler, "space": space, "trials": self.trials, "batch": self.batch}
        about |= {"search_seed": self.search_seed, "optuna": self.optuna, "fixed": self.fixed}
        about |= {"seeds": self.seeds, "asked": len(self.asked)}
        here = {c.key for c in self.candidates}
        # Of a search with other trials in the same log: they would be run again.
        before = [(key, seeds) for key, seeds in sorted(self.recalled.items()) if seeds and key not in here]
        lines = [{"values": files.parsed(key.encode()), "diverged": sorted(seeds)} for key, seeds in before]
        return about | ({"diverged_before": lines} if lines else {})

    def log_line(self, candidate: Candidate) -> dict[str, Any]:
        return {"trial": candidate.trial, "pruned": candidate.pruned}

    def told(self) -> list[Told]:
        """What came of every trial so far."""
        found = []
        for c in self.asked:
            seeds = [] if c.diverged else self.seeds[: c.rounds]
            means = [c.mean_on(seeds[:n]) for n in range(1, len(seeds) + 1)]
            found.append(Told(c.values, means, c.pruned or bool(c.diverged)))
        return found


def search_space(
    method: str,
    stream: str,
    out: Path,
    *,
    loss: str | None = None,
    classifiers: Sequence[str] = (),
    row: RowSetting | None = None,
    held: Protocol | None = None,
    space: Sequence[str] = (),
    sampler: str = "tpe",
    trials: int = TRIALS,
    batch: int = BATCH,
    search_seed: int = 0,
    seeds: Sequence[int] = (100, 101, 102),
    device: str = "auto",
    pool: str | None = None,
    progress: Progress = SILENT,
    command: str = "",
) -> SpaceSearch:
    """Search the space (`space`: words like lr=1e-3..0.5:log; what the grid spans where there are none).

    `sampler` ("tpe" or "random") proposes `trials` candidates, `batch` at a time. The other arguments are those of `search`.
    """
    check_known("search", sampler, SAMPLERS)
    for what, number, least in (("trials", trials, 1), ("batch", batch, 1), ("search-seed", search_seed, 0)):
        if number < least:
            raise MnemonError(f"--{what} must be at least {least}, not {number}.")
    choice = choose_at_recipe(
        method, stream, loss=loss, classifiers=classifiers, row=row, held=held or Protocol(), seeds=seeds
    )
    tried = parse_space(space, choice) if space else space_of(usual_grid(row, method, choice.objective.name))
    if not tried:
        raise MnemonError(
            f"{method} has no option that is searched by itself; name some, as in --space OPTION=LOW..HIGH."
        )
    where = choose_device(device if pool is None else "auto")  # a cluster may have what this machine lacks
    found = SpaceSearch(
        method=method,
        stream=str(protocol.parse(stream)),
        seeds=list(seeds),
        out=out,
        command=command,
        choice=choice,
        row=row,
        held=held or Protocol(),
        space=tried,
        sampler=sampler,
        trials=trials,
        batch=batch,
        search_seed=search_seed,
    )
    for values in ends(tried):
        spec_of(found, Candidate(values), seeds[0]).choice()  # mistakes are found before anything is written
    found.optuna = sampler_version()
    found.checksum = dataset_checksum(stream, where)
    found.recalled = log.recall(found)
    while len(found.asked) < trials:
        _run_batch(found, device, pool, progress)
    log.write(found)
    if not found.finalists:
        raise MnemonError(
            f"no candidate is left, since those that went on to all seeds diverged; {found.log} has them all. "
            "Try a space with a smaller lr."
        )
    return found


def _run_batch(search: SpaceSearch, device: str, pool: str | None, progress: Progress) -> None:
    """Propose a batch and run it, a seed at a time."""
    first = len(search.asked)
    count = min(search.batch, search.trials - first)
    going = new = _ask(search, count)
    name = f"trials {first + 1}-{first + count} of {search.trials}"
    for step, seed in enumerate(search.seeds, 1):
        if not going:
            break
        if run_round(search, going, [seed], name=name, device=device, pool=pool, progress=progress):
            # A round without runs has nothing new: while a search goes through what is known, its log stays whole.
            log.write(search)
        if step < len(search.seeds):
            going = _prune(search, going, search.seeds[:step])
    best = search.finalists[:1]
    so_far = "".join(f"; the best so far: {said(c.values)} with {estimate(c.accuracies)}" for c in best)
    logger.info(f"{name}: {sum(c.pruned for c in new)} pruned{so_far}")


def _ask(search: SpaceSearch, count: int) -> list[Candidate]:
    """The candidates of the next batch that were not tried before."""
    known = {c.key: c for c in search.asked}
    new = []
    for values in propose(search.space, search.sampler, search.search_seed, search.told(), count):
        candidate = Candidate(values, trial=len(search.asked) + 1)
        if candidate.key not in known:
            known[candidate.key] = candidate
            new.append(candidate)
        search.asked.append(known[candidate.key])
    search.candidates += new
    return new


def _prune(search: SpaceSearch, going: list[Candidate], seeds: list[int]) -> list[Candidate]:
    """Those that go on after these seeds."""
    whole = [c for c in going if not c.diverged]
    if not whole:
        return []
    ran = [c for c in search.candidates if c.rounds >= len(seeds) and not c.diverged]
    median = statistics.median(c.mean_on(seeds) for c in ran)
    for candidate in whole:
        candidate.pruned = candidate.mean_on(seeds) < median
    return [c for c in whole if not c.pruned]
