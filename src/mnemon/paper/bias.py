"""The data of Figure 1: the scores that ER gives to the classes of each task while it learns.

Runs write their scores to details/RUN.json. Where a record has none, its run is made again in OUT/fig1.
"""

from __future__ import annotations

import numpy as np

from mnemon import files
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.paper.cells import Cell, row
from mnemon.paper.results import Absent, Results
from mnemon.render.svg import Floats

STREAM = "split-cifar10"
AGAIN = "fig1"  # OUT/fig1


def mean_logits(results: Results) -> tuple[Floats, int]:
    """[k, j]: mean logit of task j's classes after task k, over test samples and runs; and the number of runs."""
    found = list(_scores(results).values())
    if not found:
        raise Absent(f"no run of ER on {STREAM} has its scores (details/RUN.json)")
    return np.mean(found, axis=0), len(found)


def without_scores(results: Results) -> list[Spec]:
    """The runs to make again in OUT/fig1: those with a record, but without scores."""
    known = _scores(results)
    return [_cell().spec(seed) for seed in results.of(_cell()).records if seed not in known]


def _cell() -> Cell:
    return Cell(1, row("er", "softmax"), STREAM)


def _scores(results: Results) -> dict[int, Floats]:
    """By seed, from the folder itself or from OUT/fig1."""
    cell, again = _cell(), results.out / AGAIN
    made_again = RecordIndex(ResultFolder(again).read()).like(cell.spec(), cell.row.classifier)
    found = {}
    for seed in results.seeds:
        for there, folder in ((results.of(cell).records, results.out), (made_again, again)):
            if seed not in there:
                continue
            try:
                details = files.parsed((folder / "details" / f"{there[seed]['run']}.json").read_bytes())
                scores = np.array(details["classifiers"][cell.row.classifier]["average_scores"], float)
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if scores.ndim == 2 and len(scores) > 1:
                found[seed] = scores
                break
    return found
