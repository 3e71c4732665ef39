"""A stream with new classes, two at a time: OnlineClassifier with its defaults beside scikit-learn and River.

    python benchmarks/own_data.py --data digits
    python benchmarks/own_data.py --data mnist --models images --out results/own-data/mnist-images.json
    python benchmarks/own_data.py --figure docs/images/own-data.png results/own-data/mnist-*.json

Every model sees each training sample once, in the same order: first all of classes 0 and 1, shuffled, then 2 and 3, and so on.
Each chunk is predicted before it is learned (test-then-train); in between and at the end the test samples of the classes
seen so far are predicted.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import mnemon
from common import header
from mnemon.bench.machine import machine

CURVE = 20  # times the curve is measured over the stream
CURVE_SAMPLES = 2000  # test samples it is measured on; the final accuracy is on all of them


class Data(NamedTuple):
    x: NDArray[Any]
    y: NDArray[Any]
    x_test: NDArray[Any]
    y_test: NDArray[Any]
    chunk: int


def mnist(seed: int) -> Data:
    found = mnemon.data.load("mnist")
    arrays = (found.x_train[:, 0].numpy(), found.y_train.numpy(), found.x_test[:, 0].numpy(), found.y_test.numpy())
    return in_pairs(*arrays, chunk=1000, seed=seed)


def digits(seed: int) -> Data:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(2024).permutation(len(x))  # the test part is the same for every seed
    train, test = order[450:], order[:450]
    return in_pairs(x[train], y[train], x[test], y[test], chunk=10, seed=seed)


def in_pairs(
    x: NDArray[Any], y: NDArray[Any], x_test: NDArray[Any], y_test: NDArray[Any], *, chunk: int, seed: int
) -> Data:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y // 2 == pair)) for pair in range(5)])
    return Data(x[rows], y[rows], x_test, y_test, chunk)


class Entry(NamedTuple):
    """What takes part: how it is made, how it learns a chunk and predicts, and what it is given."""

    what: str
    make: Callable[[], Any]
    learn: Callable[[Any, Any, Any], object]
    predict: Callable[[Any, Any], Any]
    view: Callable[[Any], Any]


def flat(x: NDArray[Any]) -> NDArray[Any]:
    return x.reshape(len(x), -1)


def unit(x: NDArray[Any]) -> NDArray[Any]:
    """For models that do no scaling of their own: values in 0 … 1."""
    return flat(x) / (255 if x.dtype == np.uint8 else 16)


def ours(what: str, view: Callable[[Any], Any], **params: Any) -> Entry:
    return Entry(
        what,
        lambda: mnemon.OnlineClassifier(**params),
        lambda model, x, y: model.partial_fit(x, y),
        lambda model, x: model.predict(x),
        view,
    )


def sgd(what: str, **named: Any) -> Entry:
    from sklearn.linear_model import SGDClassifier

    return Entry(
        what,
        lambda: SGDClassifier(loss="log_loss", random_state=0),
        lambda model, x, y: model.partial_fit(x, y, **named),
        lambda model, x: model.predict(x),
        unit,
    )


def river(what: str, make: Callable[[], Any]) -> Entry:
    def dicts(x: Any) -> Any:
        return (dict(enumerate(row)) for row in x.tolist())

    def learn(model: Any, x: Any, y: Any) -> None:
        for sample, label in zip(dicts(x), y.tolist(), strict=True):
            model.learn_one(sample, label)

    def predict(model: Any, x: Any) -> Any:
        return np.array([model.predict_one(sample) for sample in dicts(x)])

    return Entry(what, make, learn, predict, unit)


def entries() -> dict[str, Entry]:
    found = {
        "images": ours("OnlineClassifier(), X as images", lambda x: x),
        "vectors": ours("OnlineClassifier(), X as vectors", flat),
        "hybrid-images": ours('OnlineClassifier("hybrid"), X as images', lambda x: x, method="hybrid"),
        "hybrid": ours('OnlineClassifier("hybrid"), X as vectors', flat, method="hybrid"),
        "er": ours('OnlineClassifier("er", classifier="ncm"), X as vectors', flat, method="er", classifier="ncm"),
        "identity": ours(
            'OnlineClassifier("hybrid", backbone="identity"), X as vectors', flat, method="hybrid", backbone="identity"
        ),
        "sgd": sgd("scikit-learn SGDClassifier"),
        "sgd-told": sgd("scikit-learn SGDClassifier, told all ten classes beforehand", classes=np.arange(10)),
    }
    try:
        from river import forest, linear_model, naive_bayes, neighbors, tree
    except ImportError:
        return found
    return found | {
        "river-nb": river("River MultinomialNB", naive_bayes.MultinomialNB),
        "river-gaussian-nb": river("River GaussianNB", naive_bayes.GaussianNB),
        "river-softmax": river("River SoftmaxRegression", linear_model.SoftmaxRegression),
        "river-tree": river("River HoeffdingTreeClassifier", tree.HoeffdingTreeClassifier),
        "river-forest": river("River ARFClassifier", lambda: forest.ARFClassifier(seed=0)),
        "river-knn": river("River KNNClassifier", neighbors.KNNClassifier),
    }


def run(entry: Entry, data: Data, *, final_only: bool = False) -> dict[str, Any]:
    model, n = entry.make(), len(data.x)
    x, x_test = entry.view(data.x), entry.view(data.x_test)
    some = np.linspace(0, len(x_test) - 1, min(CURVE_SAMPLES, len(x_test))).astype(int)
    right, curve, seconds = 0, [], 0.0
    try:
        for start in range(0, n, data.chunk):
            part = slice(start, min(start + data.chunk, n))
            if start and not final_only:
                right += int((entry.predict(model, x[part]) == data.y[part]).sum())
            began = time.perf_counter()
            entry.learn(model, x[part], data.y[part])
            seconds += time.perf_counter() - began
            if part.stop * CURVE // n > start * CURVE // n and not final_only:
                seen = some[np.isin(data.y_test[some], data.y[: part.stop])]
                found = entry.predict(model, x_test[seen]) == data.y_test[seen]
                curve.append((part.stop, 100 * float(found.mean())))
    except ValueError as error:
        return {"model": entry.what, "refused": str(error).splitlines()[0], "after": start}
    final = 100 * float((entry.predict(model, x_test) == data.y_test).mean())
    return {
        "model": entry.what,
        "final accuracy": final,
        "test-then-train": None if final_only else 100 * right / (n - data.chunk),
        "samples learned per second": n / seconds,
        "curve": curve,
    }


def figure(path: Path, records: list[Path]) -> None:
    """Accuracy on the classes seen so far, over the stream."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    runs = [json.loads(record.read_text()) for record in records]
    fig, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    runs = [one for one in runs if one.get("curve")]
    length = max(at for one in runs for at, _ in one["curve"])
    for one in runs:
        at, accuracy = zip(*one["curve"], strict=True)
        axes.plot(at, accuracy, marker="o", markersize=3, label=f"{one['model']}: {one['final accuracy']:.1f} %")
    for pair, at in enumerate(runs[0]["arrivals"]):
        axes.axvline(at, color="0.8", linewidth=1, zorder=0)
        axes.text(at + length * 0.008, 2, f"{2 * pair} and {2 * pair + 1} arrive", fontsize=8, color="0.4")
    axes.set(
        xlim=(0, length),
        ylim=(0, 102),
        xlabel="samples learned, each once",
        ylabel="accuracy on the classes seen so far, %",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 0.06))
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", nargs="*", type=Path, help="with --figure: what to draw")
    parser.add_argument("--data", choices=["mnist", "digits"], default="digits")
    parser.add_argument("--models", nargs="*", help="some of the entries (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--final-only", action="store_true", help="predict at the end only (River takes its time)")
    parser.add_argument("--out", type=Path, help="write the record of the last model to this file")
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    if args.figure:
        figure(args.figure, args.records)
        return
    torch.set_num_threads(args.threads)
    warnings.simplefilter("ignore")
    header()
    data = {"mnist": mnist, "digits": digits}[args.data](args.seed)
    print(f"{args.data}, {len(data.x)} samples, chunks of {data.chunk}, seed {args.seed}\n")
    print("| model | final accuracy, % | test-then-train, % | samples learned per second |\n|---|---|---|---|")
    known = entries()
    for name in args.models or known:
        got = run(known[name], data, final_only=args.final_only)
        if "refused" in got:
            print(
                f"| {got['model']} | refuses the stream after {got['after']} samples: {got['refused']} | – | – |",
                flush=True,
            )
        else:
            between = "–" if args.final_only else f"{got['test-then-train']:.2f}"
            speed = got["samples learned per second"]
            print(f"| {got['model']} | {got['final accuracy']:.2f} | {between} | {speed:.0f} |", flush=True)
        if args.out:
            first = [int(np.flatnonzero(data.y // 2 == pair)[0]) for pair in range(5)]
            record = {"data": args.data, "seed": args.seed, "arrivals": first, "machine": machine()} | got
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
