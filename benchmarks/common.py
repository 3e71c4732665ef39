"""What the benchmarks share: the machine and versions, quartiles of ratios, the record on disk."""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mnemon


def machine() -> dict[str, Any]:
    """What a time depends on besides the code."""
    return {
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "mnemon": mnemon.__version__,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """First quartile, median, third quartile."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(low), float(middle), float(high)


def resident_mib() -> float:
    """Memory of this process in RAM now (its peak, where there is no /proc)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
    return pages * resource.getpagesize() / 2**20


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


def write(out: Path | None, record: dict[str, Any]) -> None:
    if out is not None:
        out.write_text(json.dumps({"machine": machine(), **record}, indent=1) + "\n")
        print(f"\nrecord: {out}")
