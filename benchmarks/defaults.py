"""Which learner `OnlineClassifier(method="auto")` takes: candidates on validation parts of streams of many kinds.

    python benchmarks/defaults.py [--kinds images vectors embeddings] [--rows 3000] [--seeds 2] [--jobs 2]

Test samples are never looked at: of the named datasets only training samples are used, of the tables a random 30 % is left
out for good. For each seed, from 100 on, some rows are learned once, in chunks of 100, and others, the validation part, are
asked about at the end. Orders: class after class (by class), shuffled, and shuffled with class sizes that fall to a fiftieth
(long-tailed). The drifting stream has an order of its own; each chunk is predicted before it is learned, and the first ones
are not counted. A cell is the mean over orders and seeds, the mean that over streams.

Embeddings: there is no pretrained network to be had without a download. A reduced ResNet-18 is trained here on fifty classes
of CIFAR-100, and makes vectors of the images of the fifty others, of CIFAR-10 and of miniImageNet, which it has never seen.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import islice
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

import mnemon
from common import header, options, write
from mnemon.learning.backbones import ReducedResNet18

FIRST_SEED = 100
CHUNK = 100
ASKED = 2000  # validation rows, at most
TAIL = 50  # how much smaller the smallest class of a long-tailed stream is
ORDERS = ("by class", "shuffled", "long-tailed")
DRIFT = "as it comes"
LEFT_OUT = 0.3  # of a table that has no test part
KNOWN = 50  # classes of CIFAR-100 that the network of the embeddings is trained on

Rows = tuple[NDArray[Any], NDArray[Any]]


class Stream(NamedTuple):
    name: str
    samples: Callable[[], Rows]
    rows: float = 1.0  # of --rows, at most
    drifts: bool = False


def dataset(name: str, *, flat: bool = False) -> Rows:
    """The training part."""
    found = mnemon.data.load(name)
    x = found.x_train.flatten(1) if flat else found.x_train.permute(0, 2, 3, 1)
    return x.numpy(), found.y_train.numpy()


def table(x: Any, y: Any) -> Rows:
    """All but a part that is left out for good."""
    kept = np.random.default_rng(2024).permutation(len(y))[int(LEFT_OUT * len(y)) :]
    return np.asarray(x, np.float32)[kept], np.asarray(y)[kept]


def from_sklearn(name: str) -> Rows:
    from sklearn import datasets

    return table(*getattr(datasets, f"load_{name}")(return_X_y=True))


def from_river(name: str) -> Rows:
    from river import datasets

    pairs = list(getattr(datasets, name)())
    labels = sorted({y for _, y in pairs})
    return table([list(x.values()) for x, _ in pairs], [labels.index(y) for _, y in pairs])


def clusters() -> Rows:
    """Classes that are no single cloud of points."""
    from sklearn.datasets import make_classification

    return table(
        *make_classification(9000, 20, n_informative=8, n_classes=5, n_clusters_per_class=2, flip_y=0.1, random_state=0)
    )


def drifting() -> Rows:
    """River's random radial basis functions, half of whose centres move all the time."""
    from river.datasets import synth

    made = synth.RandomRBFDrift(
        seed_model=1,
        seed_sample=1,
        n_classes=4,
        n_features=10,
        n_centroids=20,
        change_speed=0.001,
        n_drift_centroids=10,
    )
    pairs = list(islice(iter(made), 20_000))
    return np.array([list(x.values()) for x, _ in pairs], np.float32), np.array([y for _, y in pairs])


# --- embeddings


@cache
def trained() -> ReducedResNet18:
    """A network that knows fifty classes of CIFAR-100, by plain training: Adam, mirrored images, two passes."""
    images, y = dataset("cifar100")
    known = y < KNOWN
    x, labels = torch.from_numpy(images[known]).permute(0, 3, 1, 2), torch.from_numpy(y[known]).long()
    torch.manual_seed(0)
    net = ReducedResNet18(3, 32, 32)
    head = torch.nn.Linear(net(torch.zeros(2, 3, 32, 32)).shape[1], KNOWN)
    parameters, passes, batch = [*net.parameters(), *head.parameters()], 2, 100
    adam = torch.optim.Adam(parameters, 2e-3)
    steps = passes * len(x) // batch
    rate = torch.optim.lr_scheduler.OneCycleLR(adam, 4e-3, steps)
    for _ in range(passes):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - batch + 1, batch):
            rows = order[start : start + batch]
            seen = pixels(x[rows])
            seen = seen.flip(3) if torch.rand(()) < 0.5 else seen
            adam.zero_grad()
            torch.autograd.backward(functional.cross_entropy(head(net(seen)), labels[rows]))
            adam.step()
            rate.step()
    return net.eval()


def pixels(x: Tensor) -> Tensor:
    return (x.float() - 127.5) / 127.5


def embedded(name: str) -> Callable[[], Rows]:
    def samples() -> Rows:
        x, y = dataset(name)
        if name == "cifar100":
            x, y = x[y >= KNOWN], y[y >= KNOWN] - KNOWN
        some = np.random.default_rng(7).permutation(len(x))[:12_000]
        found = []
        with torch.no_grad():
            for part in torch.split(torch.from_numpy(x[some]).permute(0, 3, 1, 2), 500):
                images = functional.interpolate(pixels(part), (32, 32), mode="area")
                found.append(trained()(images))
        return torch.cat(found).numpy(), y[some]

    return samples


# --- what is tried on what

STREAMS: dict[str, list[Stream]] = {
    "images": [
        Stream("digits", lambda: dataset("digits")),
        Stream("MNIST", lambda: dataset("mnist"), 0.5),
        Stream("CIFAR-10", lambda: dataset("cifar10"), 0.5),
        Stream("CIFAR-100", lambda: dataset("cifar100"), 0.5),
        Stream("miniImageNet", lambda: dataset("mini_imagenet"), 0.2),
    ],
    "vectors": [
        Stream("digits", lambda: dataset("digits", flat=True)),
        Stream("MNIST", lambda: dataset("mnist", flat=True)),
        Stream("wine", lambda: from_sklearn("wine")),
        Stream("breast cancer", lambda: from_sklearn("breast_cancer")),
        Stream("image segments", lambda: from_river("ImageSegments")),
        Stream("phishing", lambda: from_river("Phishing")),
        Stream("clusters", clusters),
        Stream("RBF drift", drifting, drifts=True),
    ],
    "embeddings": [
        Stream("CIFAR-10", embedded("cifar10")),
        Stream("CIFAR-100", embedded("cifar100")),
        Stream("miniImageNet", embedded("mini_imagenet")),
    ],
}

ROOTS = "patches:power=0.5:threshold=0.5"
DIAGONAL = "gaussian:shrink=diagonal"
CANDIDATES: dict[str, dict[str, dict[str, Any]]] = {
    "images": {
        "hybrid": {"method": "hybrid"},
        "hybrid + ridge": {"method": "hybrid", "classifier": "ridge"},
        "er + ncm": {"method": "er", "classifier": "ncm"},
        "slda": {"method": "slda"},
        "slda, λ 0.001": {"method": "slda", "classifier": "gaussian"},
        "slda, roots": {"method": "slda", "backbone": ROOTS},
        "slda, roots, K 128": {"method": "slda", "backbone": f"{ROOTS}:filters=128"},
        "slda, roots, λ 0.01": {"method": "slda", "backbone": ROOTS, "classifier": "gaussian:lam=0.01"},
        "slda, roots, λ 0.03": {"method": "slda", "backbone": ROOTS, "classifier": "gaussian:lam=0.03"},
        "slda, roots, λ 0.1": {"method": "slda", "backbone": ROOTS, "classifier": "gaussian:lam=0.1"},
    },
    "vectors": {
        "hybrid": {"method": "hybrid"},
        "er + ncm": {"method": "er", "classifier": "ncm"},
        "er + blend": {"method": "er", "classifier": "blend"},
        "er + ridge": {"method": "er", "classifier": "ridge"},
        "hybrid + lda": {"method": "hybrid", "classifier": "lda"},
        "hybrid + ridge": {"method": "hybrid", "classifier": "ridge"},
        "hybrid + ridge, η 0.1": {"method": "hybrid", "classifier": "ridge", "lr": 0.1},
        "slda": {"method": "slda"},
        "slda, λ 0.001": {"method": "slda", "classifier": DIAGONAL},
        "slda, λ 0.1": {"method": "slda", "classifier": f"{DIAGONAL}:lam=0.1"},
        "slda, λ 0.3": {"method": "slda", "classifier": f"{DIAGONAL}:lam=0.3"},
    },
    "embeddings": {
        "hybrid": {"method": "hybrid", "backbone": "identity"},
        "hybrid + ridge": {"method": "hybrid", "classifier": "ridge", "backbone": "identity"},
        "er + softmax": {"method": "er", "classifier": "softmax", "backbone": "identity"},
        "slda, diagonal": {"method": "slda", "backbone": "identity"},
        "slda, diagonal, λ 0.001": {"method": "slda", "classifier": DIAGONAL, "backbone": "identity"},
        "slda, diagonal, λ 0.1": {"method": "slda", "classifier": f"{DIAGONAL}:lam=0.1", "backbone": "identity"},
        "slda": {"method": "slda", "classifier": "gaussian:lam=auto", "backbone": "identity"},
        "slda, λ 0.001": {"method": "slda", "classifier": "gaussian", "backbone": "identity"},
        "slda, λ 0.01": {"method": "slda", "classifier": "gaussian:lam=0.01", "backbone": "identity"},
        "slda, λ 0.1": {"method": "slda", "classifier": "gaussian:lam=0.1", "backbone": "identity"},
        "slda, λ 1": {"method": "slda", "classifier": "gaussian:lam=1", "backbone": "identity"},
    },
}


# --- one run


@cache
def loaded(kind: str, name: str) -> Rows:
    return next(stream for stream in STREAMS[kind] if stream.name == name).samples()


class Job(NamedTuple):
    kind: str
    stream: str
    order: str
    candidate: str
    params: dict[str, Any]
    rows: int
    seed: int


def run(job: Job) -> tuple[float, float, int]:
    """Accuracy in percent, seconds of learning, and rows learned."""
    x, y = loaded(job.kind, job.stream)
    rng = np.random.default_rng(job.seed)
    model = mnemon.OnlineClassifier(**job.params, seed=job.seed)
    if job.order == DRIFT:
        start = int(rng.integers(len(y) - job.rows + 1))
        return prequential(model, x[start : start + job.rows], y[start : start + job.rows])
    rows = rng.permutation(len(y))
    asked, rows = np.split(rows, [min(ASKED, len(y) // 4)])
    rows = ordered(rows[: job.rows], y, job.order, rng)
    seconds = learn(model, x[rows], y[rows])
    return 100 * float(model.score(x[asked], y[asked])), seconds, len(rows)


def ordered(rows: NDArray[np.int64], y: NDArray[Any], order: str, rng: np.random.Generator) -> NDArray[np.int64]:
    classes = rng.permutation(np.unique(y))
    if order == "by class":
        return np.concatenate([rows[y[rows] == c] for c in classes])
    if order == "long-tailed":
        falls = TAIL ** -(np.arange(len(classes)) / (len(classes) - 1))
        few = {c: max(1, round(f * np.sum(y[rows] == c))) for c, f in zip(classes.tolist(), falls, strict=True)}
        kept = np.concatenate([rows[y[rows] == c][: few[c]] for c in classes.tolist()])
        return rng.permutation(kept)
    return rows


def learn(model: mnemon.OnlineClassifier, x: NDArray[Any], y: NDArray[Any]) -> float:
    began = time.perf_counter()
    for start in range(0, len(y), CHUNK):
        model.partial_fit(x[start : start + CHUNK], y[start : start + CHUNK])
    return time.perf_counter() - began


def prequential(model: mnemon.OnlineClassifier, x: NDArray[Any], y: NDArray[Any]) -> tuple[float, float, int]:
    right = []
    seconds = learn(model, x[: 5 * CHUNK], y[: 5 * CHUNK])
    for start in range(5 * CHUNK, len(y), CHUNK):
        part = slice(start, start + CHUNK)
        right.append(model.score(x[part], y[part]))
        seconds += learn(model, x[part], y[part])
    return 100 * float(np.mean(right)), seconds, len(y)


def quiet() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


# --- the table


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=tuple(STREAMS), default=list(STREAMS))
    parser.add_argument("--streams", nargs="+", help="some of the streams, by name (default: all)")
    parser.add_argument("--candidates", nargs="+", help="some of the candidates (default: all)")
    parser.add_argument("--rows", type=int, default=3000, help="rows learned, at most (default 3000)")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="processes, each with one thread")
    args = parser.parse_args()
    quiet()
    header()
    if "embeddings" in args.kinds:
        trained()  # before the processes are made, which then have it
    record: dict[str, Any] = {"benchmark": "defaults", "rows": args.rows, "seeds": args.seeds}
    with ProcessPoolExecutor(args.jobs, get_context("fork"), quiet) as pool:
        for kind in args.kinds:
            record[kind] = compare(kind, args, pool)
    write(args.out, record)


def compare(kind: str, args: argparse.Namespace, pool: ProcessPoolExecutor) -> list[dict[str, Any]]:
    streams = [s for s in STREAMS[kind] if not args.streams or s.name in args.streams]
    tried = {c: params for c, params in CANDIDATES[kind].items() if not args.candidates or c in args.candidates}
    jobs = [
        Job(kind, s.name, order, name, params, int(s.rows * args.rows), seed)
        for s in streams
        for order in ((DRIFT,) if s.drifts else ORDERS)
        for seed in range(FIRST_SEED, FIRST_SEED + args.seeds)
        for name, params in tried.items()
    ]
    found = []
    for job, got in zip(jobs, pool.map(run, jobs), strict=True):
        found.append(job._asdict() | dict(zip(("accuracy", "seconds", "learned"), got, strict=True)))
        print(f"{len(found)} of {len(jobs)}: {job.stream}, {job.order}, {job.candidate}: {got[0]:.1f}", file=sys.stderr)
    show(kind, [s.name for s in streams], list(tried), found)
    return found


def show(kind: str, streams: list[str], candidates: list[str], found: list[dict[str, Any]]) -> None:
    def mean(of: str = "accuracy", **where: str) -> float:
        return float(np.mean([each[of] for each in found if all(each[k] == v for k, v in where.items())]))

    def over(names: Iterable[str], **where: str) -> float:
        return float(np.mean([mean(stream=name, **where) for name in names]))

    ordered = [name for name in streams if any(each["order"] in ORDERS for each in found if each["stream"] == name)]
    print(f"\n{kind}; accuracy on validation samples, %\n")
    print(f"| learner | {' | '.join(streams)} | **mean** | {' | '.join(ORDERS)} | rows/s |")
    print("|---" * (len(streams) + len(ORDERS) + 3) + "|")
    print("| *rows* | " + " | ".join(f"{max_rows(found, name):,}" for name in streams) + " |" + " |" * 5)
    for name in candidates:
        cells = [f"{mean(stream=stream, candidate=name):.1f}" for stream in streams]
        cells += [f"**{over(streams, candidate=name):.1f}**"]
        cells += [f"{over(ordered, candidate=name, order=order):.1f}" for order in ORDERS] if ordered else ["–"] * 3
        print(
            f"| {name} | {' | '.join(cells)} | {mean('learned', candidate=name) / mean('seconds', candidate=name):,.0f} |",
            flush=True,
        )


def max_rows(found: list[dict[str, Any]], stream: str) -> int:
    return max(int(each["learned"]) for each in found if each["stream"] == stream)


if __name__ == "__main__":
    main()
