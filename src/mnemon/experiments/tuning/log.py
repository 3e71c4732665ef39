"""The log of a search, OUT/tuning/NAME.json: every candidate, the best first.

A search reads there which runs diverged and, where a grid is searched, which candidates were tried before with the same seeds
and fixed values: they count as if both grids had been one. Their accuracies come from the records.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.recording import versions
from mnemon.experiments.tuning.candidate import Candidate, mean
from mnemon.experiments.tuning.searched import Search


def write(search: Search) -> None:
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
        **({"protocol": search.held.given} if search.held.given else {}),
        **search.described(),
        "finished": search.finished,
        "chosen": search.chosen.values if search.finalists else None,
        "recipe": search.recipe,
        "data": {"name": protocol.parse(search.stream).dataset, "checksum": search.checksum},
        "versions": versions(),
    }
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    rows = ",\n".join("  " + json.dumps(_line(search, c, several)) for c in search.candidates)
    with files.explained(f"the log {search.log} cannot be written"):
        search.log.parent.mkdir(parents=True, exist_ok=True)
        files.write(search.log, ("{\n" + ",\n".join(lines) + f',\n "candidates": [\n{rows}\n ]\n}}\n').encode())


def _line(search: Search, candidate: Candidate, several: bool) -> dict[str, Any]:
    """A candidate; with several classifiers the one that reads it best, and the mean of each."""
    runs = candidate.best
    whole = bool(runs) and not candidate.diverged
    return {
        "values": candidate.values,
        **({"classifier": candidate.classifier, "means": candidate.means} if several else {}),
        "mean": mean(candidate.accuracies) if whole else None,
        "accuracies": {str(seed): r["average_accuracy"] for seed, r in runs.items()},
        "diverged": sorted(candidate.diverged),
        **search.log_line(candidate),
        "runs": [r["run"] for r in runs.values()],
        "devices": sorted({r["device"] for r in runs.values()}),
    }


def recall(search: Search) -> dict[str, set[int]]:
    """What earlier searches of this cell saw diverge: it has no record, and only the logs know it."""
    known: dict[str, set[int]] = {}
    place = replace(search, number=1)
    while (found := _read(place)) is not None:
        with explained(place):
            lines = [*found["candidates"], *found.get("diverged_before", [])] if _is_same(search, found) else []
            for line in lines:
                known.setdefault(Candidate(dict(line["values"])).key, set()).update(map(int, line["diverged"]))
        place = replace(place, number=place.number + 1)
    return known


def claim(search: Search) -> dict[str, Any] | None:
    """Give the search the first log that is free or of a search with its seeds and fixed values; returns what that one says."""
    search.number = 1
    while (found := _read(search)) is not None:
        with explained(search):
            if _is_same(search, found) and found["seeds"] == search.seeds:
                return found
        search.number += 1
    return None


def _read(search: Search) -> dict[str, Any] | None:
    """The log in the place of this one; None if there is none."""
    with explained(search):
        try:
            found: dict[str, Any] = files.parsed(search.log.read_bytes())
        except FileNotFoundError:
            return None
        _ = [found[name] for name in ("candidates", "seeds")]
        return found


def _is_same(search: Search, found: dict[str, Any]) -> bool:
    """Whether a log is of the same data and fixed values."""
    return bool(found["data"]["checksum"] == search.checksum and found["fixed"] == search.fixed)


@contextlib.contextmanager
def explained(search: Search) -> Iterator[None]:
    """What is wrong with a log in one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise MnemonError(f"{search.log} is not the log of a search; repair or remove it.") from None
