"""OnlineClassifier over a long stream: samples per second for partial_fit and predict, and the memory of the process.

    python benchmarks/estimator.py

Vectors of 784 numbers, ten classes, chunks of 100. At ten points of the stream: what learning and predicting a chunk cost
there, and what the process holds. Flat means that sample 100,000 costs what sample 10,000 did.
"""

from __future__ import annotations

import time

import numpy as np
import torch

import mnemon
from common import header, options, quartiles, write
from mnemon.bench.machine import resident_mib

CHUNK = 100


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=784)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    rng = np.random.default_rng(args.seed)
    centres = rng.normal(size=(10, args.width)).astype(np.float32)
    clf = mnemon.OnlineClassifier(seed=args.seed)
    print(
        "| samples seen | partial_fit, samples/s | predict, samples/s | predict one right after learning, ms | memory, MiB |"
    )
    print("|---|---|---|---|---|")
    points, tenth = [], args.samples // 10
    for _ in range(10):
        learn, ask, first = [], [], []
        for _chunk in range(tenth // CHUNK):
            y = rng.integers(10, size=CHUNK)
            x = centres[y] + rng.normal(size=(CHUNK, args.width)).astype(np.float32)
            learn.append(_seconds(clf.partial_fit, x, y))
            if len(learn) % 10 == 0:  # the class means have to be computed again: the price of the first question
                first.append(_seconds(clf.predict, x[:1]))
                ask.append(_seconds(clf.predict, x))
        point_ = {
            "seen": clf.n_seen_,
            "learned per second": CHUNK / quartiles(learn)[1],
            "predicted per second": CHUNK / quartiles(ask)[1],
            "first prediction ms": 1000 * quartiles(first)[1],
            "resident MiB": resident_mib(),
        }
        points.append(point_)
        print("| {:,} | {:,.0f} | {:,.0f} | {:.1f} | {:.0f} |".format(*point_.values()), flush=True)
    slower = points[1]["learned per second"] / points[-1]["learned per second"]
    more = points[-1]["resident MiB"] - points[1]["resident MiB"]
    print(
        f"\nfrom {points[1]['seen']:,} to {points[-1]['seen']:,} samples: time {slower:.2f} ×, memory {more:+.1f} MiB"
    )
    one = [_seconds(clf.partial_fit, x[:1], y[:1]) for _ in range(200)]
    print(f"one sample at a time: {1 / quartiles(one)[1]:,.0f} samples/s")
    write(args.out, {"benchmark": "estimator", "points": points, "one": 1 / quartiles(one)[1]})


def _seconds(act: object, *args: object) -> float:
    start = time.perf_counter()
    act(*args)  # type: ignore[operator]
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
