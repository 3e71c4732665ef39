"""The search of a grid, by halving where it is large: all candidates on the first seed, the best of them on all seeds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.recipes import grids
from mnemon.experiments.recipes.grids import Grid
from mnemon.experiments.scenario import dataset_checksum
from mnemon.experiments.spec import Spec
from mnemon.experiments.tuning import log
from mnemon.experiments.tuning.candidate import Candidate
from mnemon.experiments.tuning.rounds import run_round, spec_of
from mnemon.experiments.tuning.searched import FIRST_SEED, FIXED, RowSetting, Search
from mnemon.learning import options
from mnemon.learning.build import Choice
from mnemon.runtime.device import choose_device
from mnemon.runtime.progress import SILENT, Progress

BEST = 15  # candidates that go on from the first seed to all of them


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
    tried = parse_grid(grid, at_recipe) if grid else row.grid if row else grids.grid(method, loss)
    if not tried:
        raise MnemonError(
            f"{method} has no option that is searched by itself; name some, as in --grid OPTION=VALUE,VALUE."
        )
    candidates = [Candidate(dict(zip(tried, values, strict=True))) for values in itertools.product(*tried.values())]
    where = choose_device(device)
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
        spec_of(found, candidate, seeds[0]).choice()  # mistakes are found before anything is written
    found.checksum = dataset_checksum(stream, where)
    log.recall(found)
    halving = len(candidates) > best and len(seeds) > 1
    for part in (found.seeds[:1], found.seeds) if halving else (found.seeds,):
        going = candidates if not found.rounds else found.finalists[:best]
        run_round(found, going, part, device, progress)
        if not found.finalists:
            raise MnemonError(f"every candidate diverged; {found.log} has them all. Try a grid with a smaller lr.")
    return found


def parse_grid(words: Sequence[str], choice: Choice) -> Grid:
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
