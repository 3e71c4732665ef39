"""One round of a search: the candidates that go on run on some seeds, and what they did is collected."""

from __future__ import annotations

import contextlib
import logging

from mnemon.errors import Diverged
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.record import Record
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.experiments.tuning import log
from mnemon.experiments.tuning.candidate import Candidate, listed, said
from mnemon.experiments.tuning.searched import Search
from mnemon.runtime.progress import Progress

logger = logging.getLogger(__name__)


def run_round(search: Search, going: list[Candidate], seeds: list[int], device: str, progress: Progress) -> None:
    """The candidates that go on, on these seeds."""
    for candidate in going:
        candidate.diverged |= candidate.recalled & set(seeds)
    wanted = [(c, seed) for c in going for seed in seeds if seed not in c.diverged]
    _collect(search, wanted)
    missing = [(c, seed) for c, seed in wanted if seed not in c.records]
    number = len(search.rounds) + 1
    known = f"; {len(wanted) - len(missing)} of them known" if len(missing) < len(wanted) else ""
    plural = "" if len(going) == 1 else "s"
    logger.info(f"round {number}: {len(going)} candidate{plural} on {listed(seeds)}, {len(wanted)} runs{known}")
    if missing:

        def title(r: Record) -> str:
            return said({name: r["options"][name] for name in search.grid if name in r["options"]})

        specs = [spec_of(search, c, seed) for c, seed in missing]
        with contextlib.suppress(Diverged):  # those ended alone; they are the ones without a record
            run_all(specs, search.out, device=device, progress=progress, title=title)
        _collect(search, missing)
        for candidate, seed in missing:
            if seed not in candidate.records:
                candidate.diverged.add(seed)
    for candidate in going:
        candidate.rounds += 1
    search.rounds.append({"seeds": seeds, "candidates": len(going)})
    search.candidates = sorted(search.candidates, key=lambda c: c.rank)  # stable: of equals the first in the grid
    log.write(search)


def _collect(search: Search, wanted: list[tuple[Candidate, int]]) -> None:
    """Take what is finished from the folder: the seeds that every classifier has a record of."""
    there = RecordIndex(ResultFolder(search.out).read())
    for candidate in search.candidates:
        seeds = [seed for other, seed in wanted if other is candidate]
        spec = spec_of(search, candidate, search.seeds[0])
        by_name = {name: there.like(spec, name, search.checksum) for name in search.classifiers} if seeds else {}
        for seed in seeds:
            if all(seed in found for found in by_name.values()):
                candidate.records[seed] = {name: found[seed] for name, found in by_name.items()}


def spec_of(search: Search, candidate: Candidate, seed: int) -> Spec:
    given = (search.row.options if search.row else {}) | candidate.values
    about = (search.method, search.stream, seed, search.loss, search.classifiers)
    return Spec(*about, split="valid", options=given, cell="tune")
