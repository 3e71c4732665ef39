"""`mnemon fit --on ray` beside `mnemon fit`: MNIST learned by slda in four tasks and merged, and by one learner.

The 60,000 images are written as a folder of PNG files. Both models see the same files in the same order and hold none out
(`exam=0`). Their statistics and their scores of the 10,000 test images are compared with the tolerance of
tests/own_data/test_sharded_fit.py; a difference beyond it is an error. The start of the cluster is not timed; each side is
timed once, so its seconds are an example and no measurement.

    python benchmarks/ray_merge.py --images 6000      # small: a trial
    python benchmarks/ray_merge.py                    # a few minutes
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from common import header, options, write
from mnemon import OnlineClassifier, data
from mnemon.own_data import sharded
from mnemon.own_data.fit import fit
from mnemon.runtime import ray_cluster

TOLERANCE = 1e-3  # of a score, relative and absolute


def write_images(folder: Path, x: torch.Tensor, y: torch.Tensor) -> None:
    for label in sorted(set(y.tolist())):
        (folder / str(label)).mkdir(parents=True)
    for number, (image, label) in enumerate(zip(x.numpy(), y.tolist(), strict=True)):
        Image.fromarray(image[0]).save(folder / str(label) / f"{number:05d}.png")


def learn(folder: Path, out: Path, on: str | None) -> tuple[float, OnlineClassifier]:
    start = time.perf_counter()
    fit(folder, out, method="slda", backbone="patches", exam=0, size=28, device="cpu", on=on)
    return time.perf_counter() - start, OnlineClassifier.load(out, device="cpu")


def furthest(one: OnlineClassifier, other: OnlineClassifier) -> dict[str, float]:
    """The largest difference in each statistic, as a part of its largest value. Classes are put into one order."""
    a, b = (model._model.learner.state() for model in (one, other))
    places = [list(other.classes_).index(label) for label in one.classes_]
    found = {}
    for name in sorted(a):
        if name.startswith("statistics."):
            mine, theirs = a[name].double(), b[name].double()
            if mine.ndim and len(mine) == len(places):
                theirs = theirs[places]
            found[name.removeprefix("statistics.")] = float(
                (mine - theirs).abs().max() / mine.abs().max().clamp(min=1e-30)
            )
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--images", type=int, default=60_000, help="training images (default: all 60,000)")
    parser.add_argument("--tasks", type=int, default=4, help="shards to merge (default 4)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    mnist = data.load("mnist")
    chosen = torch.from_numpy(np.random.default_rng(args.seed).permutation(len(mnist.x_train))[: args.images].copy())
    x: NDArray[Any] = mnist.x_test.numpy().transpose(0, 2, 3, 1).repeat(3, 3)  # as files are read
    tasks: list[int] = []
    submit = sharded.Shards._submit

    def counted(shards: sharded.Shards) -> None:
        tasks.append(sum(len(lesson.y) for lesson in shards.reading))
        submit(shards)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_images(folder / "images", mnist.x_train[chosen], mnist.y_train[chosen])
        sharded.SHARD = math.ceil(args.images / args.tasks)
        with ray_cluster.connected(), patch.object(sharded.Shards, "_submit", counted):
            there, merged = learn(folder / "images", folder / "merged", "ray")
        here, alone = learn(folder / "images", folder / "alone", None)
    statistics = furthest(alone, merged)
    labels = [list(merged.classes_).index(label) for label in alone.classes_]
    scores, others = alone.decision_function(x), merged.decision_function(x)[:, labels]
    relative = float(np.abs(scores - others).max() / np.abs(scores).max())
    equal = bool(np.allclose(others, scores, rtol=TOLERANCE, atol=TOLERANCE))
    one, other = (np.asarray(model.predict(x)).astype(str) for model in (alone, merged))
    truth = np.asarray(mnist.classes)[mnist.y_test.numpy()]
    print(
        f"{merged.n_seen_:,} images merged from {len(tasks)} tasks of {', '.join(f'{n:,}' for n in tasks)} and a beginning"
    )
    print(f"of {merged.n_seen_ - sum(tasks):,}, {alone.n_seen_:,} learned by one learner")
    print("largest difference, as a part of the largest value:")
    for name, value in statistics.items():
        print(f"  {name} {value:.1e}")
    print(f"  scores of {len(x):,} test images {relative:.1e}; within {TOLERANCE:g}: {equal}")
    print(f"other predictions: {int((one != other).sum())} of {len(x):,}")
    print(f"accuracy: merged {100 * (other == truth).mean():.2f} %, one learner {100 * (one == truth).mean():.2f} %")
    print(
        f"seconds: Ray {there:.1f} ({os.cpu_count()} cores), one learner {here:.1f} ({args.threads} thread(s)); ",
        end="",
    )
    print(f"load {os.getloadavg()[0]:.1f}")
    found = {"statistics": statistics, "scores": relative, "other": int((one != other).sum())}
    write(args.out, {"tasks": tasks, "seconds": {"ray": there, "alone": here}, **found})
    if not equal or merged.n_seen_ != alone.n_seen_:
        raise SystemExit("the models differ")


if __name__ == "__main__":
    main()
