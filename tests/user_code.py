"""What a user of the public names writes, checked by `mypy --strict`; `assert_type` fails where a type is not seen."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
import torch

import mnemon
from mnemon import Client, Embedding, MnemonError, OnlineClassifier, losses, metrics, streams


def classify(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], y: list[str], folder: Path) -> float:
    model = OnlineClassifier(method="hybrid", memory_size=200, seed=1)
    assert_type(model.partial_fit(x, y), OnlineClassifier)
    model.save(folder)
    again: OnlineClassifier = OnlineClassifier.load(folder)
    return float(again.score(x, y))


def embed(texts: list[str]) -> OnlineClassifier:
    def vectors(batch: list[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in batch]

    return OnlineClassifier(backbone=Embedding(vectors)).fit(texts, ["a"] * len(texts))


def experiment() -> float:
    record = mnemon.run("er", "split-digits", seed=0)
    forgetting: float = metrics.average_forgetting(record["accuracy_matrix"])
    mean, half = metrics.confidence_interval([1.0, 2.0])
    assert_type((mean, half), tuple[float, float])
    names: tuple[str, ...] = mnemon.methods()
    version: str = mnemon.__version__
    return forgetting + len(names) + len(version)


def loss(z: torch.Tensor, y: torch.Tensor, proxies: torch.Tensor) -> torch.Tensor:
    return losses.multi_similarity(z, y, alpha=2.0) + 0.1 * losses.proxy_nca(z, y, proxies)


def schedule(labels: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    stream = streams.split(labels, tasks=5, seed=0)
    assert_type(stream, streams.Stream)
    assert_type(streams.smooth(labels, length=100, seed=0), streams.Stream)
    return len(stream.indices) + len(stream.boundaries) + len(stream.tasks)


def served(x: list[list[float]]) -> bool:
    try:
        with Client("http://127.0.0.1:8765", "flowers", token="t") as client:
            client.learn(x, ["a"] * len(x), id="morning")
            return "predictions" in client.predict(x)
    except MnemonError as error:
        print(error)
        return False
