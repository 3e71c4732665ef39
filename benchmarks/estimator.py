"""OnlineClassifier over a long stream, and beside scikit-learn: speed, memory, size on disk, accuracy.

    python benchmarks/estimator.py [--parts long beside river]

long: vectors of 784 numbers, ten classes, chunks of 100. At ten points of the stream: what learning and predicting a chunk
cost there, and what the process holds. Flat means that sample 100,000 costs what sample 10,000 did.

beside: a million rows of 20 features in chunks of 10,000, learned by slda, by SGDClassifier and by a plain nearest class
mean, in turn; medians over the rounds, and quartiles of the ratio of each round. Two classes are what SGDClassifier is
best at: one linear model, where five classes are five.

river: 10,000 rows of two streams of the same kind, in chunks of 100, learned by the default, by slda, by those two and by
three classifiers of River's, which take one row after the other.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier

import mnemon
from common import header, options, quartiles, write
from mnemon.bench.machine import resident_mib

CHUNK = 100
LARGE = 10_000  # rows of a chunk beside scikit-learn, and of the test set
FEATURES = 20
SHORT_TEST = 2000  # rows of the test set beside River


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=784)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--river-rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=("long", "beside", "river"), default=["long", "beside", "river"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    record: dict[str, Any] = {"benchmark": "estimator"}
    if "long" in args.parts:
        record |= long_stream(args)
    if "beside" in args.parts:
        record["beside"] = [beside(classes, args) for classes in (2, 5)]
    if "river" in args.parts:
        record["river"] = [with_river(classes, args) for classes in (2, 5)]
    write(args.out, record)


def long_stream(args: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(args.seed)
    centres = rng.normal(size=(10, args.width)).astype(np.float32)
    clf = mnemon.OnlineClassifier("hybrid", seed=args.seed)
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
    return {"points": points, "one": 1 / quartiles(one)[1]}


class PlainMeans:
    """The nearest class mean as one would write it: sums and counts, nothing is checked."""

    def __init__(self, classes: int) -> None:
        self.sums, self.counts = np.zeros((classes, FEATURES)), np.zeros(classes)

    def partial_fit(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        member = (y == np.arange(len(self.counts))[:, None]).astype(x.dtype)
        self.sums += member @ x
        self.counts += member.sum(1)

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        means = self.sums / self.counts[:, None]
        return np.asarray((x @ means.T - 0.5 * (means**2).sum(1)).argmax(1))


class OneByOne:
    """A classifier of River's, given and asked what the others are."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def partial_fit(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), label)

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.array([self.model.predict_one(dict(enumerate(row))) for row in x.tolist()])


def samples(rows: int, classes: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    found: tuple[NDArray[Any], NDArray[Any]] = make_classification(
        rows,
        FEATURES,
        n_informative=10,
        n_classes=classes,
        n_clusters_per_class=1,
        class_sep=0.7,
        random_state=seed,
    )
    return found


def with_river(classes: int, args: argparse.Namespace) -> dict[str, Any]:
    """A short stream: rows per second, latency, bytes and accuracy of each, in one run."""
    from river import linear_model, naive_bayes, preprocessing, tree

    x, y = samples(args.river_rows + SHORT_TEST, classes, args.seed)
    test, asked = x[args.river_rows :], y[args.river_rows :]
    made: dict[str, Any] = {
        "OnlineClassifier()": mnemon.OnlineClassifier(seed=args.seed),
        'OnlineClassifier("slda")': mnemon.OnlineClassifier("slda", seed=args.seed),
        "SGDClassifier": SGDClassifier(loss="log_loss", random_state=args.seed),
        "nearest class mean": PlainMeans(classes),
        "River GaussianNB": OneByOne(naive_bayes.GaussianNB()),  # type: ignore[no-untyped-call]
        "River HoeffdingTreeClassifier": OneByOne(tree.HoeffdingTreeClassifier()),
        "River SoftmaxRegression, scaled": OneByOne(preprocessing.StandardScaler() | linear_model.SoftmaxRegression()),
    }
    print(f"\n{args.river_rows:,} rows, {FEATURES} features, {classes} classes, chunks of {CHUNK}\n")
    print("| model | rows/s | predict one, ms | bytes | accuracy, % |\n|---|---|---|---|---|")
    found: dict[str, Any] = {"classes": classes, "rows": args.river_rows}
    for name, model in made.items():
        told = {"classes": np.arange(classes)} if name == "SGDClassifier" else {}
        spent = 0.0
        for start in range(0, args.river_rows, CHUNK):
            spent += _seconds(model.partial_fit, x[start : start + CHUNK], y[start : start + CHUNK], **told)
        right = 100 * float((model.predict(test) == asked).mean())
        one = 1000 * quartiles([_seconds(model.predict, test[i : i + 1]) for i in range(50)])[1]
        found[name] = {
            "rows per second": args.river_rows / spent,
            "one ms": one,
            "bytes": _bytes(model),
            "right": right,
        }
        print("| {} | {:,.0f} | {:.2f} | {:,} | {:.1f} |".format(name, *found[name].values()), flush=True)
    return found


def beside(classes: int, args: argparse.Namespace) -> dict[str, Any]:
    """One stream; each round learns it afresh with each model."""
    x, y = samples(args.rows + LARGE, classes, args.seed)
    test, asked = x[args.rows :], y[args.rows :]
    table = np.arange(classes)
    made: dict[str, Callable[[], Any]] = {
        "slda": lambda: mnemon.OnlineClassifier("slda", seed=args.seed),
        "SGDClassifier": lambda: SGDClassifier(loss="log_loss", random_state=args.seed),
        "nearest class mean": lambda: PlainMeans(classes),
    }
    learn: dict[str, list[float]] = {name: [] for name in made}
    one: dict[str, list[float]] = {name: [] for name in made}
    many: dict[str, list[float]] = {name: [] for name in made}
    models: dict[str, Any] = {}
    held: list[float] = []  # MiB of the process while slda learns
    for _ in range(args.rounds):
        for name, make in made.items():
            models[name] = model = make()
            told = {"classes": table} if name == "SGDClassifier" else {}
            spent = 0.0
            for start in range(0, args.rows, LARGE):
                stop = min(start + LARGE, args.rows)
                spent += _seconds(model.partial_fit, x[start:stop], y[start:stop], **told)
                if name == "slda":
                    held.append(resident_mib())
            learn[name].append(spent)
    for i in range(50):
        for name, model in models.items():
            one[name].append(_seconds(model.predict, test[i : i + 1]))
            many[name].append(_seconds(model.predict, test[:1000]))
    print(f"\n{args.rows:,} rows, {FEATURES} features, {classes} classes, chunks of {LARGE:,}\n")
    print("| model | rows/s | predict one, ms | predict 1,000, ms | bytes saved | accuracy, % |")
    print("|---|---|---|---|---|---|")
    found: dict[str, Any] = {"classes": classes, "rows": args.rows}
    for name, model in models.items():
        found[name] = {
            "rows per second": args.rows / quartiles(learn[name])[1],
            "predict one ms": 1000 * quartiles(one[name])[1],
            "predict 1000 ms": 1000 * quartiles(many[name])[1],
            "bytes": _bytes(model),
            "accuracy": 100 * float((model.predict(test) == asked).mean()),
        }
        print("| {} | {:,.0f} | {:.2f} | {:.2f} | {:,} | {:.1f} |".format(name, *found[name].values()))
    ratios = [a / b for a, b in zip(learn["slda"], learn["SGDClassifier"], strict=True)]
    low, middle, high = found["ratio"] = quartiles(ratios)
    most = args.rows // LARGE
    found["resident MiB"] = held[most // 10], held[most - 1]
    print(f"\ntime of slda to SGDClassifier {middle:.2f} ({low:.2f} … {high:.2f}); ", end="")
    print(f"memory of the process from a tenth of the rows on {held[most - 1] - held[most // 10]:+.1f} MiB", flush=True)
    return found


def _bytes(model: Any) -> int:
    if not isinstance(model, mnemon.OnlineClassifier):
        return len(pickle.dumps(model))
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return sum(path.stat().st_size for path in Path(folder).iterdir())


def _seconds(act: Callable[..., object], *args: object, **named: object) -> float:
    start = time.perf_counter()
    act(*args, **named)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
