"""`mnemon bench`: everything is measured in one process and one run; a table, a JSON record and a picture come out."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.bench import inference, startup, training
from mnemon.bench.machine import machine
from mnemon.bench.shapes import NETS
from mnemon.errors import MnemonError, check_known
from mnemon.learning.methods import methods as known_methods
from mnemon.runtime.device import Engine

logger = logging.getLogger(__name__)


def bench(
    out: Path,
    engine: Engine,
    *,
    nets: list[str],
    methods: list[str],
    runs: list[int],
    rounds: int,
    steps: int | None = None,
) -> dict[str, Any]:
    """Measure, write OUT/bench.json, OUT/bench.png and OUT/bench.svg, and return the record."""
    engine.check()
    for net in nets:
        check_known("network", net, NETS)
    for method in methods:
        check_known("method", method, known_methods())
    if rounds < 1 or (steps is not None and steps < 1) or min(runs, default=0) < 1:
        raise MnemonError("runs, rounds and steps are numbers from 1 on.")
    kind = engine.device.type if engine.device.type == "cuda" else "cpu"
    with files.explained(f"{out} cannot be written"):
        out.mkdir(parents=True, exist_ok=True)
    steps_learned: list[dict[str, Any]] = []
    passes: list[dict[str, Any]] = []
    beside_er: list[dict[str, Any]] = []
    with engine.in_use():
        for net in nets:
            for method in methods:
                logger.info(f"{net}, {method}: training …")
                found = training.measure(
                    net,
                    method,
                    engine,
                    many=runs,
                    rounds=rounds,
                    steps=steps or NETS[net].steps[kind],
                    full=kind == "cuda" or net == "mlp",
                )
                steps_learned.append(found)
            logger.info(f"{net}: methods beside ER …")
            count, full = steps or NETS[net].steps[kind], kind == "cuda" or net == "mlp"
            beside_er.append(training.costs(net, methods, engine, rounds=rounds, steps=count, full=full))
            logger.info(f"{net}: inference …")
            passes.append(inference.measure(net, engine, rounds=rounds, images=NETS[net].images[kind]))
        logger.info("start-up …")
        started = startup.measure(rounds)
    record = {
        "benchmark": "bench",
        "machine": machine(),
        "device": engine.name,
        "precision": engine.exact,
        "deterministic": engine.deterministic,
        "rounds": rounds,
        "training": steps_learned,
        "methods": beside_er,
        "inference": passes,
        "startup_seconds": started,
    }
    from mnemon.bench.picture import draw

    with files.explained(f"{out} cannot be written"):
        files.write(out / "bench.json", (json.dumps(record, indent=1) + "\n").encode())
        draw(record, out)
    return record


def lines(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The table of training: head and rows. Steps per second of all runs, and how many times the eager loop's."""
    names = list(dict.fromkeys(name for found in record["training"] for name in found["ms_per_run_step"]))
    rows = []
    for found in record["training"]:
        row = [found["net"], found["method"], found["baseline"]]
        for name in names:
            ms = found["ms_per_run_step"].get(name)
            if ms is None:
                row.append("-")
                continue
            times, low, high = found["times_eager"][name]
            text = f"{1e3 / ms:,.0f}"
            row.append(text if name == found["fastest_eager"] else f"{text} ({times:.2f}×: {low:.2f} … {high:.2f})")
        rows.append(row)
    return ["net", "method", "compared with", *names], rows


def cost_lines(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [found["net"], name, f"{times:.2f}× ({low:.2f} … {high:.2f})"]
        for found in record["methods"]
        for name, (times, low, high) in found["times_er"].items()
    ]
    return ["net", "method", "ER's step"], rows


def inference_lines(record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [found["net"], name, f"{found['images']:,}", f"{seconds:.3f}", f"{found['times_softmax'][name][0]:.3f}×"]
        for found in record["inference"]
        for name, seconds in found["seconds"].items()
    ]
    return ["net", "classifier", "images", "seconds", "softmax"], rows
