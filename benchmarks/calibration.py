"""How sure OnlineClassifier is, and whether it should be: calibration error, what is rejected, novelty of unknown classes.

    python benchmarks/calibration.py [--splits 5] [--methods auto slda hybrid] [--parts calibration novelty young]

Each set is split at random into 70 % to learn and 30 % to ask; predictions of all splits are pooled. ECE: expected
calibration error, 15 bins of equal width. "before" is exam=0, which learns the samples that are held out too. Streams are
shuffled, or ordered by class. Novelty: some classes are never shown; AUROC of novelty(X) for telling them from the others.
The constants of the calibration were chosen on the splits 0 … 7 of the four smaller sets; here splits start at 100.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.metrics import roc_auc_score

import mnemon
from common import header, options, write

METHODS = ("auto", "slda", "hybrid")
FIRST_SPLIT = 100


class Table(NamedTuple):
    name: str
    x: NDArray[Any]
    y: NDArray[np.int64]
    unknown: tuple[int, ...]  # classes that are not shown where novelty is measured


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--mnist", type=int, default=4000, help="MNIST images; 0: leave it out, it has to be fetched")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    tables = list(_tables(args.mnist))
    record: dict[str, Any] = {"benchmark": "calibration"}
    for part in args.parts:
        record[part] = PARTS[part](tables, args)
    write(args.out, record)


def _tables(images: int) -> Iterator[Table]:
    yield _table("digits", load_digits(return_X_y=True), (8, 9))
    small = load_digits()
    yield Table("digits as images", small.images.astype(np.uint8), small.target, ())
    yield _table("wine", load_wine(return_X_y=True), (1,))
    yield _table("breast cancer", load_breast_cancer(return_X_y=True), ())
    hard = make_classification(
        6000, 20, n_informative=8, n_classes=5, n_clusters_per_class=2, flip_y=0.1, random_state=0
    )
    yield _table("five classes of two clusters, 10 % wrong labels", hard, (3, 4))
    if images:
        data = mnemon.data.load("mnist")
        some = np.random.default_rng(0).permutation(len(data.y_train))[:images]
        yield _table("MNIST vectors", (data.x_train[some].flatten(1), data.y_train[some]), (8, 9))


def _table(name: str, samples: tuple[Any, Any], unknown: tuple[int, ...]) -> Table:
    return Table(name, np.asarray(samples[0], np.float32), np.asarray(samples[1], np.int64), unknown)


def splits(table: Table, args: argparse.Namespace) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Seed, rows to learn in random order, rows to ask."""
    for seed in range(FIRST_SPLIT, FIRST_SPLIT + args.splits):
        order = np.random.default_rng(seed).permutation(len(table.y))
        n = int(0.7 * len(order))
        yield seed, order[:n], order[n:]


def calibration(tables: list[Table], args: argparse.Namespace) -> list[dict[str, Any]]:
    print(
        "\n| stream | method | accuracy before, % | after | confidence before, % | after | ECE before | **after** |",
        end="",
    )
    print(" reject=0.9: answered, % | right of them |\n|---|---|---|---|---|---|---|---|---|---|")
    found = []
    for table in tables:
        for order in ("shuffled", "by class"):
            for method in args.methods:
                before, after = _Answers(), _Answers()
                for seed, learn, ask in splits(table, args):
                    if order == "by class":
                        learn = learn[np.argsort(table.y[learn], kind="stable")]
                    for answers, exam in ((before, 0), (after, 20)):
                        clf = mnemon.OnlineClassifier(method, seed=seed, exam=exam)
                        clf.partial_fit(table.x[learn], table.y[learn])
                        answers.add(clf, table.x[ask], table.y[ask])
                row: dict[str, Any] = {"stream": f"{table.name}, {order}", "method": method}
                row |= {"before": before.summary(), "after": after.summary()}
                found.append(row)
                b, a = before.summary(), after.summary()
                print(
                    f"| {row['stream']} | {method} | {b['accuracy']:.1f} | {a['accuracy']:.1f} | {b['confidence']:.1f} | "
                    f"{a['confidence']:.1f} | {b['ece']:.3f} | **{a['ece']:.3f}** | {a['answered']:.1f} | {a['right']:.1f} |",
                    flush=True,
                )
    return found


class _Answers:
    """Answers over several splits."""

    def __init__(self) -> None:
        self.parts: list[tuple[NDArray[Any], ...]] = []

    def add(self, clf: mnemon.OnlineClassifier, x: NDArray[Any], y: NDArray[Any]) -> None:
        answered = np.array([label is not None for label in clf.predict(x, reject=0.9)])
        self.parts.append((clf.predict_proba(x).max(1), clf.predict(x) == y, answered))

    def summary(self) -> dict[str, float]:
        sure, right, answered = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        return {
            "accuracy": 100 * float(right.mean()),
            "confidence": 100 * float(sure.mean()),
            "ece": expected_calibration_error(sure, right),
            "answered": 100 * float(answered.mean()),
            "right": 100 * float(right[answered].mean()) if answered.any() else float("nan"),
        }


def expected_calibration_error(sure: NDArray[Any], right: NDArray[Any], bins: int = 15) -> float:
    """|accuracy − mean confidence| of each bin, weighted by its share of the samples."""
    at = np.minimum((sure * bins).astype(int), bins - 1)
    return float(sum(abs(sure[at == b].mean() - right[at == b].mean()) * (at == b).mean() for b in np.unique(at)))


def novelty(tables: list[Table], args: argparse.Namespace) -> list[dict[str, Any]]:
    print("\n| never shown | method | AUROC | known samples with novelty above 1, % | above 3, % |", end="")
    print(" unknown above 1, % | 1e6 in every feature: probability | novelty |\n|---|---|---|---|---|---|---|---|")
    found = []
    for table in tables:
        for method in args.methods if table.unknown else ():
            areas, known, unknown, far = [], [], [], []
            for seed, learn, ask in splits(table, args):
                learn = learn[~np.isin(table.y[learn], table.unknown)]
                clf = mnemon.OnlineClassifier(method, seed=seed).partial_fit(table.x[learn], table.y[learn])
                strange, scores = np.isin(table.y[ask], table.unknown), clf.novelty(table.x[ask])
                areas.append(roc_auc_score(strange, scores))
                known.append(scores[~strange])
                unknown.append(scores[strange])
                away = np.full((1, table.x.shape[1]), 1e6, np.float32)
                far.append((clf.predict_proba(away).max(), clf.novelty(away)[0]))
            near, other = np.concatenate(known), np.concatenate(unknown)
            row: dict[str, Any] = {
                "classes": f"{table.name}: {', '.join(map(str, table.unknown))}",
                "method": method,
                "auroc": float(np.mean(areas)),
                "known above 1": 100 * float((near > 1).mean()),
                "known above 3": 100 * float((near > 3).mean()),
                "unknown above 1": 100 * float((other > 1).mean()),
                "far": [float(value) for value in np.max(far, 0)],
            }
            found.append(row)
            print(
                f"| {row['classes']} | {method} | {row['auroc']:.3f} | {row['known above 1']:.1f} | "
                f"{row['known above 3']:.1f} | {row['unknown above 1']:.1f} | "
                f"{np.max(far, 0)[0]:.2f} | {np.min(far, 0)[1]:.0e} |",
                flush=True,
            )
    return found


def young(tables: list[Table], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Of the first images, before and after the exam has ten samples: the default, shuffled, two seeds pooled."""
    print("\n| images | learned | in the exam | accuracy, % | confidence, % | ECE |\n|---|---|---|---|---|---|")
    found = []
    for name in ("mnist", "cifar10"):
        data = mnemon.data.load(name)
        x, y = data.x_train.permute(0, 2, 3, 1).numpy(), data.y_train.numpy()
        for learned in (30, 60, 100, 150, 300, 1000):
            sure, right, held = [], [], []
            for seed in (FIRST_SPLIT, FIRST_SPLIT + 1):
                order = np.random.default_rng(seed).permutation(len(y))
                learn, ask = order[:learned], order[-1000:]
                clf = mnemon.OnlineClassifier(seed=seed).partial_fit(x[learn], y[learn])
                sure.append(clf.predict_proba(x[ask]).max(1))
                right.append(clf.predict(x[ask]) == y[ask])
                held.append(int((np.bincount(y[learn]) // 10).sum()))
            p, r = np.concatenate(sure), np.concatenate(right)
            row: dict[str, Any] = {"images": name, "learned": learned, "exam": float(np.mean(held))}
            row |= {"accuracy": 100 * float(r.mean()), "confidence": 100 * float(p.mean())}
            row |= {"ece": expected_calibration_error(p, r)}
            found.append(row)
            print("| {} | {} | {:.0f} | {:.1f} | {:.1f} | {:.3f} |".format(*row.values()), flush=True)
    return found


PARTS = {"calibration": calibration, "novelty": novelty, "young": young}

if __name__ == "__main__":
    main()
