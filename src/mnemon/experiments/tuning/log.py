"""The log of a search, OUT/tuning/NAME.json: every candidate, the best first. Only divergences are read from it again."""

from __future__ import annotations

import json
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
    """What an earlier search of this cell saw diverge: it has no record, and only the log knows it."""
    try:
        log = files.parsed(search.log.read_bytes())
        same = log["data"]["checksum"] == search.checksum and log["fixed"] == search.fixed
        lines = [*log["candidates"], *log.get("diverged_before", [])]
        known = {Candidate(dict(line["values"])).key: set(map(int, line["diverged"])) for line in lines}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise MnemonError(f"{search.log} is not the log of a search; repair or remove it.") from None
    return known if same else {}
