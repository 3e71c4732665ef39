"""How long a person waits before anything happens."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

from mnemon.bench import timing

PROGRAMS = {
    "python": ["-c", "pass"],
    "import mnemon": ["-c", "import mnemon"],
    "mnemon --help": ["-m", "mnemon", "--help"],
    "mnemon run --help": ["-m", "mnemon", "run", "--help"],
    "import torch": ["-c", "import torch"],
    "from mnemon import OnlineClassifier": ["-c", "from mnemon import OnlineClassifier"],
}


def measure(rounds: int) -> dict[str, float]:
    """Seconds of each, medians."""
    works = {
        name: partial(subprocess.run, [sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        for name, words in PROGRAMS.items()
    }
    return {name: timing.median(values) for name, values in timing.interleaved(works, rounds).items()}
