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
from mnemon.experiments.tuning.candidate import Candidate, listed, said
from mnemon.experiments.tuning.searched import Search
from mnemon.runtime.progress import Progress

logger = logging.getLogger(__name__)


def run_round(
    search: Search,
    going: list[Candidate],
    seeds: list[int],
    *,
    name: str,
    device: str,
    pool: str | None,
    progress: Progress,
) -> bool:
    """Run the candidates that go on, on these seeds; returns whether anything had to be run."""
    for candidate in going:
        candidate.diverged |= search.recalled.get(candidate.key, set()) & set(seeds)
    wanted = [(c, seed) for c in going for seed in seeds if seed not in c.diverged]
    _collect(search, wanted)
    missing = [(c, seed) for c, seed in wanted if seed not in c.records]
    known = f"; {len(wanted) - len(missing)} of them known" if len(missing) < len(wanted) else ""
    candidates, runs = _counted(len(going), "candidate"), _counted(len(wanted), "run")
    logger.info(f"{name}: {candidates} on {listed(seeds)}, {runs}{known}")
    if missing:

        def title(r: Record) -> str:
            return said({option: r["options"][option] for option in search.names if option in r["options"]})

        specs = [spec_of(search, c, seed) for c, seed in missing]
        with contextlib.suppress(Diverged):  # those ended alone; they are the ones without a record
            run_all(specs, search.out, device=device, pool=pool, progress=progress, title=title)
        _collect(search, missing)
        for candidate, seed in missing:
            if seed not in candidate.records:
                candidate.diverged.add(seed)
    for candidate in going:
        candidate.rounds += 1
    search.candidates = sorted(search.candidates, key=lambda c: c.rank)  # stable: of equals the first that was tried
    return bool(missing)


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
    held = search.held
    given = (search.row.options if search.row else {}) | held.options | candidate.values
    about = (search.method, search.stream, seed, search.loss, search.classifiers)
    return Spec(*about, split="valid", order=held.order, options=given, cell="tune", backbone=held.backbone)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
