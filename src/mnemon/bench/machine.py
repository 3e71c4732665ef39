"""What a time depends on besides the code."""

from __future__ import annotations

import platform
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mnemon


def machine() -> dict[str, Any]:
    found = {
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "mnemon": mnemon.__version__,
    }
    return found | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def resident_mib() -> float:
    """Memory of this process in RAM now (its peak, where there is no /proc)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
    return pages * resource.getpagesize() / 2**20
