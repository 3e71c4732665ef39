"""What is measured once and kept beside the records, one JSON line each: facts of the streams, times of the methods.

OUT/streams.jsonl    Tables 5 and 6: lengths, tasks and class counts of our streams, over seeds 0 to 14
OUT/times.jsonl      Figure 4
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from mnemon import data, files
from mnemon.errors import MnemonError
from mnemon.experiments import protocol
from mnemon.paper.cells import SEEDS

STREAMS, TIMES = "streams.jsonl", "times.jsonl"
Line = dict[str, Any]


def read(folder: Path, name: str) -> list[Line]:
    """The lines of a file; none where there is no file."""
    path = folder / name
    try:
        lines = [files.parsed(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if all(isinstance(line, dict) for line in lines):
            return lines
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        pass
    raise MnemonError(f"{path} is not a file of JSON lines; mend or remove it.")


def add(folder: Path, name: str, new: Iterable[Line], same: tuple[str, ...]) -> None:
    """Add lines; an older one that agrees in `same` goes."""
    with FileLock((folder / name).with_suffix(".lock")):
        lines = {tuple(str(line.get(key)) for key in same): line for line in [*read(folder, name), *new]}
        text = "".join(json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n" for line in lines.values())
        files.write(folder / name, text.encode())


def dataset_here(stream: str) -> bool:
    """Is the dataset behind a stream in the cache?"""
    dataset = protocol.parse(stream).dataset
    return any(info.name == dataset and info.state in ("ready", "built in") for info in data.listing())


def can_run(stream: str) -> bool:
    """Can the dataset be had? One that nobody may hand out has to be brought by hand."""
    known = data.definitions().get(protocol.parse(stream).dataset)
    return dataset_here(stream) or (known is not None and known.sources is not None)


def stream_facts(stream: str, seeds: Iterable[int] = SEEDS) -> Line:
    """A stream's statistics, from the streams themselves; nothing is trained."""
    name = protocol.parse(stream)
    dataset = data.load(name.dataset, fetch=False)
    labels = dataset.y_train.numpy()
    smallest, largest, made, valid = len(labels), 0, None, 0
    every = list(seeds)
    for seed in every:
        pools = protocol.pools(labels, name.rules, seed)
        made = protocol.make(name, labels[pools.train], seed, "natural")
        counts = np.unique(labels[pools.train][made.indices], return_counts=True)[1]
        smallest, largest = min(smallest, int(counts.min())), max(largest, int(counts.max()))
        valid = len(pools.valid)
    assert made is not None
    classes = len(np.unique(labels))
    return {
        "stream": str(name),
        "image": "×".join(str(side) for side in dataset.x_train.shape[1:]),
        "classes": classes,
        "train": len(made.indices),
        "valid": valid,
        "test": len(dataset.y_test),
        "tasks": len(made.tasks),
        "per_task": len(made.tasks[0]),
        "mean": len(made.indices) // classes,
        "smallest": smallest,
        "largest": largest,
        "memory": name.rules.memory,
        "seeds": len(every),
        "data": dataset.checksum,
    }
