"""Records as the runs behind the paper's cells would write them, for tests of tables, figures and claims."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from mnemon.experiments import protocol
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.record import Record
from mnemon.experiments.spec import Spec
from mnemon.paper import cells, numbers
from mnemon.paper.cells import Cell
from mnemon.paper.claims import entries
from mnemon.paper.results import Results
from mnemon.render import names

HYBRID = "hybrid (the paper's own)"


def committed():
    """The results of the repository, which the package's tests come without."""
    results = Path(__file__).parents[1] / "results"
    if not results.exists():
        pytest.skip("the records are in the repository, not in the package")
    return results


def row(name, table=1):
    return next(r for r in cells.rows(table) if r.name == name)


def made(cell, seed=0, value=50.0, lost=20.0, **change):
    """A record as the run behind a cell would write it."""
    spec = cell.spec(seed)
    name = protocol.parse(spec.stream)
    tasks = 1 if name.kind == "smooth" else int(numbers.SPLIT_STREAMS[cell.stream, "tasks"])
    bound = cell.row.method in names.UPPER_BOUNDS
    matrix = [[value] * tasks]
    if not bound and tasks > 1:
        matrix = [[value + lost * (k < tasks - 1) if j <= k else None for j in range(tasks)] for k in range(tasks)]
    record = {
        "method": spec.method,
        "stream": spec.stream,
        "seed": seed,
        "loss": spec.loss,
        "classifier": cell.row.classifier,
        "split": "test",
        "order": "natural",
        "options": spec.choice().options(),
        "average_accuracy": value,
        "average_forgetting": None if bound or tasks == 1 else lost,
        "accuracy_matrix": matrix,
        "protocol": {"backbone": "MLP" if name.rules.backbone == "mlp" else "ReducedResNet18"},
        "seconds": {"train": 2.0, "evaluate": 1.0},
        "device": "cpu",
        "data": {"checksum": "0" * 64},
        "versions": {},
    } | change
    return Record({"run": named(Record(record))} | record)


def named(r):
    """The name of the run behind a record, also of one with an option nobody knows."""
    choice = SimpleNamespace(objective=SimpleNamespace(name=r["loss"]), options=lambda: r["options"], from_outside=dict)
    usual = "MLP" if protocol.parse(r["stream"]).rules.backbone == "mlp" else "ReducedResNet18"
    backbone = None if r["protocol"]["backbone"] == usual else r["protocol"]["backbone"]
    spec = Spec(r["method"], r["stream"], r["seed"], split=r["split"], order=r["order"], backbone=backbone)
    return spec.key(choice, r["stream"], r["data"]["checksum"], r.computed)


def fifteen(cell, mean=50.0, **change):
    """Fifteen records whose mean is `mean`."""
    return [made(cell, seed, mean + (seed - 7) / 10, **change) for seed in range(15)]


def put(folder, found):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in found))
    return folder


def results(found, out=Path("nowhere"), lines=(), **more):
    return Results(out, RecordIndex(found), lines, **more)


def values(found, cell):
    """What the records that count for a cell say."""
    return tuple(results(found).of(cell).values.values())


def runs(levels, stream, table=1, **change):
    """Fifteen records for each name at its level."""
    return [r for name, level in levels.items() for r in fifteen(Cell(table, row(name), stream), level, **change)]


def timed(steps, stream="split-cifar100-10", **change):
    usual = {"shape": [3, 32, 32], "device": "a device", "test_s": {"softmax": 1.0, "ncm": 1.04}, "tested": 10_000}
    return [usual | {"method": m, "stream": stream, "step_ms": ms} | change for m, ms in steps.items()]


def judged(found, lines=()):
    """Claim → verdict and numbers."""
    return {line[0]: line[1:] for line in entries.check(results(found, lines=lines)).parts[0].rows}
