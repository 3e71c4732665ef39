"""The records of a run: made when it has finished, written to the folder, found again."""

from __future__ import annotations

import json
import math
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mnemon
from mnemon import files
from mnemon.experiments import measures, metrics
from mnemon.experiments.job import Job
from mnemon.experiments.record import Record
from mnemon.experiments.run import Run
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning import cost, plugins
from mnemon.learning.backbones import title
from mnemon.runtime.device import Engine


class Recorded:
    """The records of a folder, by run and classifier; read again only when a file of theirs has changed."""

    def __init__(self, out: Path) -> None:
        self.folder = ResultFolder(out)
        self._stamps: list[tuple[int, int] | None] = []
        self._by_run: dict[str, dict[str, Record]] = {}

    def of(self, job: Job) -> list[Record] | None:
        """The records of a job if all of its classifiers have one."""
        self._refresh()
        found = self._by_run.get(job.key, {})
        return [found[name] for name in job.classifiers] if found.keys() >= set(job.classifiers) else None

    def _refresh(self) -> None:
        stamps = [_stamp(path) for path in (self.folder.records, self.folder.archive)]
        if stamps != self._stamps:
            self._stamps, self._by_run = stamps, {}
            for record in self.folder.read():
                self._by_run.setdefault(record["run"], {})[record["classifier"]] = record


def _stamp(path: Path) -> tuple[int, int] | None:
    """Changes whenever the file does; None where there is no file."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size


def make_records(run: Run, spec: Spec, engine: Engine, key: str, concurrent: int = 1) -> list[Record]:
    """One record for each classifier of the finished run `key`; `concurrent`: runs that were active at once."""
    choice, scenario = run.choice, run.scenario
    options = choice.options()
    labels, counts = np.unique(scenario.y[scenario.stream.indices], return_counts=True)
    shared = {
        "loss": choice.objective.name,
        "memory_size": run.learner.memory.size,
        "divisor": options.get("divisor"),
        "order": spec.order,
        "split": spec.split,
        "cell": spec.cell,
    }
    costs = {
        "state_bytes": cost.state_bytes(run.learner),
        "multiplications": cost.multiplications(
            choice.method, choice.objective, scenario.inputs, scenario.backbone, len(run.table)
        ),
    }
    evaluations = scenario.stream.evaluations
    outside = {what: plugins.described(kind) for what, kind in choice.from_outside().items()}
    probed = measures.probe_accuracy(run) if "probe" in run.measures else None
    made = []
    for classifier in choice.classifiers:
        matrix = [row[classifier.name]["accuracy"] for row in run.rows]
        made.append(
            Record(
                {
                    "method": spec.method,
                    "stream": scenario.name,
                    "seed": spec.seed,
                    **shared,
                    "classifier": classifier.name,
                    "average_accuracy": metrics.average_accuracy(matrix),
                    "average_forgetting": _null(metrics.average_forgetting(matrix)),
                    "anytime_accuracy": None if evaluations else _null(metrics.anytime_accuracy(matrix)),
                    "learning_accuracy": _null(metrics.learning_accuracy(matrix)),
                    "backward_transfer": _null(metrics.backward_transfer(matrix)),
                    "min_accuracy": _null(metrics.min_accuracy(matrix)),
                    **_curve(run, matrix),
                    **_measured(run, classifier.name, probed),
                    "accuracy_matrix": matrix,
                    "options": options,
                    "protocol": {
                        "kind": scenario.stream.kind,
                        "tasks": [list(labels) for labels in scenario.stream.tasks],
                        "boundaries": list(scenario.stream.boundaries),
                        "tested": [list(labels) for labels in scenario.tested],
                        "class_counts": [
                            [label, count] for label, count in zip(labels.tolist(), counts.tolist(), strict=True)
                        ],
                        "samples": len(scenario.stream.indices),
                        "learned": run.batches.size,
                        "batches": len(run.batches),
                        **({"evaluated": _evaluated(run)} if evaluations else {}),
                        "passes": choice.method.epochs or 1,
                        "augmentation": choice.method.augmentation(),
                        "memory": choice.method.memory_rule if choice.method.replays else "none",
                        "forward": "separate" if choice.method.own_passes else choice.method.forward,
                        "backbone": title(scenario.backbone, run.learner.net.backbone),
                        "parameters": run.learner.parameter_count(),
                    },
                    "seconds": {name: round(seconds, 3) for name, seconds in run.seconds.items()},
                    **costs,
                    "backbone": spec.backbone,  # as it was asked for; None: the dataset's own
                    "device": engine.name,
                    "threads": torch.get_num_threads(),
                    "precision": engine.exact,
                    "deterministic": engine.deterministic,
                    "at_once": concurrent,
                    "versions": versions(),
                    "data": scenario.data,
                    "run": key,
                    "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                    **_plugins(outside, type(classifier).name),
                }
            )
        )
    return made


def _measured(run: Run, classifier: str, probed: float | None) -> dict[str, float | None]:
    """What was asked for beyond the accuracy matrix."""
    found: dict[str, float | None] = {}
    if "prequential" in run.measures:
        found["prequential_accuracy"] = measures.prequential_accuracy(run, classifier)
    if probed is not None:
        found["probe_accuracy"] = probed
    return found


def _evaluated(run: Run) -> list[int]:
    """After how many samples the run was evaluated."""
    return [end * run.batches.shape[1] for end in run.ends]


def _curve(run: Run, matrix: Any) -> dict[str, float]:
    """The area under the accuracy curve, on a stream that is evaluated all along."""
    if not run.scenario.stream.evaluations:
        return {}
    return {"area_under_curve": metrics.area_under_curve(matrix, _evaluated(run))}


def _plugins(outside: dict[str, dict[str, str] | None], classifier: str) -> dict[str, Any]:
    """The code from outside that made a record, where there is some."""
    mine = {"method": "method", "loss": "loss", f"classifier {classifier}": "classifier"}
    found = {mine[what]: about for what, about in outside.items() if what in mine and about is not None}
    return {"plugins": found} if found else {}


def versions() -> dict[str, str]:
    """Of what computed a run."""
    libraries = {"torch": str(torch.__version__), "numpy": np.__version__}
    return {"mnemon": mnemon.__version__, "python": platform.python_version(), **libraries}


def write(out: Path, run: Run, made: list[Record]) -> None:
    """Write the records of a finished run and its details."""
    by_classifier = {
        c.name: {"average_scores": [row[c.name]["scores"] for row in run.rows], "confusion": run.confusion[c.name]}
        for c in run.choice.classifiers
    }
    write_made(out, {"labels": np.sort(run.table.labels).tolist(), "classifiers": by_classifier}, made)


def write_made(out: Path, details: dict[str, Any], made: list[Record]) -> None:
    """Write the details of a run, then its records: a record says that all is there."""
    key = made[0]["run"]
    with files.explained(f"the record of {key} could not be written to {out}"):
        _write_details(details_file(out, key), details)
        ResultFolder(out).append(made)


def details_file(out: Path, key: str) -> Path:
    return out / "details" / f"{key}.json"


def _write_details(path: Path, details: dict[str, Any]) -> None:
    """Write what the report draws beyond the record; other classifiers of the same run, evaluated earlier, are kept."""
    try:
        known = dict(files.parsed(path.read_bytes())["classifiers"])
    except (OSError, ValueError, KeyError, TypeError):  # none yet, or damaged: the record does not depend on it
        known = {}
    whole = details | {"classifiers": known | details["classifiers"]}
    files.write(path, json.dumps(whole, allow_nan=False).encode())


def _null(value: float) -> float | None:
    return None if math.isnan(value) else value
