"""What the benchmarks share: options, quartiles of ratios, the record on disk."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from mnemon.bench.machine import machine


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(low), float(middle), float(high)


def options(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write a JSON record to this file")
    return parser


def header() -> None:
    m = machine()
    print(f"{m['cpu']}, {m['threads']} thread(s); python {m['python']}, torch {m['torch']}, mnemon {m['mnemon']}\n")


def save(out: Path | None, record: dict[str, Any]) -> None:
    """The record so far, whole at any moment: a long benchmark that is killed keeps what it had."""
    if out is not None:
        beside = out.with_name(f"{out.name}.part")
        beside.write_text(json.dumps({"machine": machine(), **record}, indent=1) + "\n")
        beside.replace(out)


def write(out: Path | None, record: dict[str, Any]) -> None:
    save(out, record)
    if out is not None:
        print(f"\nrecord: {out}")


SHOWN = ("lr", "memory_size", "gamma", "divisor", "reference_size")


def describe(values: dict[str, Any]) -> str:
    """The hyper-parameters both sides use, for the output: recipes change, and a number belongs to its recipe."""
    return ", ".join(f"{name} {values[name]}" for name in SHOWN if name in values)
