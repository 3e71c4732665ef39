"""Facts of our streams for Tables 5 and 6, counted once and kept in OUT/streams.jsonl."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mnemon import data
from mnemon.experiments import protocol
from mnemon.paper.cells import SEEDS
from mnemon.paper.json_lines import Line

FILE = "streams.jsonl"
SAME = ("stream",)  # fields of which a file holds one line each


def stream_facts(stream: str, seeds: Iterable[int] = SEEDS) -> Line:
    """Lengths, tasks and class counts over the streams of these seeds; nothing is trained."""
    name = protocol.parse(stream)
    dataset = data.load(name.dataset, fetch=False)
    labels = dataset.y_train.numpy()
    smallest, largest, made, valid = len(labels), 0, None, 0
    every = list(seeds)
    for seed in every:
        parts = protocol.partition(labels, name.rules, seed)
        made = protocol.make(name, labels[parts.train], seed, "natural")
        counts = np.unique(labels[parts.train][made.indices], return_counts=True)[1]
        smallest, largest = min(smallest, int(counts.min())), max(largest, int(counts.max()))
        valid = len(parts.valid)
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
