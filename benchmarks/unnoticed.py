"""What an OnlineClassifier does not notice, or late: samples taken back that it never learned, and drift of images.

    python benchmarks/unnoticed.py [--parts forget drift]

forget: a model learns samples, and is asked to forget as many others of the same kind; how often it refuses, of five times.
drift: two labels of a shuffled stream are swapped; after how many samples of each class the detector says so.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import mnemon
from common import header, options, write
from mnemon.estimator.drift import Detector

SAMPLES = (300, 1500, 4000)
GIVEN = (1, 5, 20, 100)
TIMES = 5
SWAPPED = ((0, 1), (5, 7), (3, 8), (4, 9))
CHUNK = 100


def images(name: str, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    data = mnemon.data.load(name)
    some = np.random.default_rng(4).permutation(len(data.y_train))[:count]
    return data.x_train[some].permute(0, 2, 3, 1).numpy(), data.y_train[some].numpy()


def forget() -> list[dict[str, Any]]:
    print(f"\n| learned | samples | {' | '.join(f'refused of {n} others' for n in GIVEN)} |")
    print("|---" * (len(GIVEN) + 2) + "|")
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(4).permutation(len(y))
    streams = {
        "MNIST": images("mnist", 6000),
        "CIFAR-10": images("cifar10", 6000),
        "digits, a table": (x[order], y[order]),
    }
    found = []
    for name, (x, y) in streams.items():
        for n in SAMPLES:
            if n + TIMES * max(GIVEN) > len(y):
                continue
            clf = mnemon.OnlineClassifier("slda" if x.ndim == 2 else "auto").partial_fit(x[:n], y[:n])
            refused = [sum(refuses(clf, x[s : s + k], y[s : s + k]) for s in starts(n)) for k in GIVEN]
            found.append({"stream": name, "samples": n, "refused": refused})
            print(f"| {name} | {n:,} | {' | '.join(f'{r} of {TIMES}' for r in refused)} |", flush=True)
    return found


def starts(n: int) -> range:
    return range(n, n + TIMES * max(GIVEN), max(GIVEN))


def refuses(clf: mnemon.OnlineClassifier, x: NDArray[Any], y: NDArray[Any]) -> bool:
    try:
        copy.deepcopy(clf).forget(x, y)
    except mnemon.MnemonError:
        return True
    return False


def drift() -> list[dict[str, Any]]:
    print(
        "\n| stream | swapped | samples of each class until it is noticed | of each class in all |\n|---|---|---|---|"
    )
    found = []
    for name, count in (("mnist", 16_000), ("cifar10", 40_000)):
        x, y = images(name, count)
        tensor = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
        half = count // 2
        for a, b in SWAPPED:
            now = y.copy()
            now[half:] = np.where(y[half:] == a, b, np.where(y[half:] == b, a, y[half:]))
            detector = Detector(tuple(tensor.shape[1:]), 0)
            noticed: dict[int, int] = {}
            for start in range(0, count, CHUNK):
                stop = start + CHUNK
                for alarm in detector.observe(tensor[start:stop], torch.from_numpy(now[start:stop]), 10):
                    noticed.setdefault(alarm.c, int((now[half : start + alarm.position + 1] == alarm.c).sum()))
            said = ", ".join(str(noticed.get(c, "never")) for c in (a, b))
            found.append({"stream": name, "swapped": [a, b], "noticed": noticed})
            print(f"| {name} | {a} and {b} | {said} | {int((now[half:] == a).sum()):,} |", flush=True)
    return found


PARTS = {"forget": forget, "drift": drift}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    args: argparse.Namespace = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    write(args.out, {"benchmark": "unnoticed"} | {part: PARTS[part]() for part in args.parts})


if __name__ == "__main__":
    main()
