"""How much shrinkage does slda need? One training, read with many λ, after so many samples; and what λ = auto takes.

    python benchmarks/shrinkage.py [--kinds images vectors embeddings] [--draws 2]

The samples are those of defaults.py: training images and rows of which a part is held out and asked. Nothing is chosen here
but the constant of λ = auto; test images are not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import defaults
from common import header, options, write
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import make_learner
from mnemon.learning.streaming import StreamingLearner

ASKED = 2000
SIZES = (30, 100, 300, 1000, 3000, 10_000, 40_000)
GRID = [10 ** (e / 2) for e in range(-8, 3)]  # 0.0001 to 10
FIXED = (0.001, 0.01, 0.1)
NOISE = (3, 10, 30)  # samples of noise for each class; mnemon takes 10


class Kind(NamedTuple):
    """Samples, and how slda is to see them."""

    streams: str  # of defaults.py
    backbone: str
    shrink: str
    views: int = 1


KINDS = {
    "images": Kind("images", defaults.ROOTS, "identity"),
    "images and their mirror images": Kind("images", defaults.ROOTS, "identity", views=2),
    "embeddings": Kind("embeddings", "identity", "identity"),
    "vectors": Kind("vectors", "identity", "diagonal"),
}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--streams", nargs="+", help="some of the streams, by name (default: all that do not drift)")
    parser.add_argument("--draws", type=int, default=2, help="random choices of the samples (default 2)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    if "embeddings" in args.kinds:
        defaults.trained()  # with gradients
    record: dict[str, list[dict[str, float | str]]] = {}
    for name in args.kinds:
        print(f"\n{name}; accuracy on held-out samples, %\n", flush=True)
        print("| stream | samples | classes | best λ | its accuracy | λ auto | its accuracy | " + columns(FIXED, "λ "))
        print("|---|---|---|---|---|---|---|" + "---|" * len(FIXED))
        lost: dict[str, list[float]] = defaultdict(list)
        for stream in defaults.STREAMS[KINDS[name].streams]:
            if not stream.drifts and (args.streams is None or stream.name in args.streams):
                record[f"{name}: {stream.name}"] = of_stream(KINDS[name], stream, args.draws, args.seed, lost)
        print("\npoints lost to the best λ, mean over streams and sizes, and the most:")
        for reading, points in lost.items():
            print(f"  {reading:24s} {np.mean(points):5.2f} {max(points):6.1f}")
    write(args.out, {"grid": GRID, "lines": record})


def columns(values: tuple[float, ...], before: str = "") -> str:
    return " | ".join(f"{before}{value:g}" for value in values) + " |"


def of_stream(
    kind: Kind, stream: defaults.Stream, draws: int, seed: int, lost: dict[str, list[float]]
) -> list[dict[str, float | str]]:
    """Print a line for each number of samples; append to `lost` what each choice of λ loses to the best of the grid."""
    x, y = stream.samples()
    samples = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x)
    labels = torch.from_numpy(np.unique(y, return_inverse=True)[1])
    asked = min(ASKED, len(labels) // 4)
    lines: list[dict[str, float | str]] = []
    accuracies: dict[int, list[list[float]]] = defaultdict(list)
    autos: dict[int, float] = {}
    for draw in range(draws):
        order = torch.from_numpy(np.random.default_rng((seed, draw)).permutation(len(labels)))
        test, rest = order[:asked], order[asked:]
        for size in (size for size in SIZES if size <= len(rest)):
            learner = learned(kind, samples, labels, rest[:size], draw)
            statistics = learner.statistics
            if statistics is None:  # the dictionary still waits for images
                continue
            autos[size] = statistics.shrinkage()
            readings = [*GRID, *FIXED, *(autos[size] / 10 * noise for noise in NOISE)]
            features = torch.cat([learner.output(part).features for part in torch.split(samples[test], 500)])
            accuracies[size].append([percent(learner, lam, kind.shrink, features, labels[test]) for lam in readings])
    for size, found in accuracies.items():
        mean = np.mean(found, axis=0)
        on_grid, fixed, noise = np.split(mean, [len(GRID), len(GRID) + len(FIXED)])
        best = int(on_grid.argmax())
        own = noise[NOISE.index(10)]
        classes = len(torch.unique(labels[rest[:size]]))
        shown = (
            f"| {stream.name} | {size:,} | {classes} | {GRID[best]:.2g} | {on_grid[best]:.1f} | {autos[size]:.2g} | "
        )
        print(shown + f"{own:.1f} | " + " | ".join(f"{value:.1f}" for value in fixed) + " |", flush=True)
        names = [*(f"λ {lam:g}" for lam in FIXED), *(f"λ = {k} · classes / samples" for k in NOISE)]
        for reading, value in zip(names, [*fixed, *noise], strict=True):
            lost[reading].append(float(on_grid[best] - value))
        by_lambda = {f"{lam:.3g}": float(value) for lam, value in zip(GRID, on_grid, strict=True)}
        lines.append({"samples": size, "auto": autos[size], **by_lambda})
    return lines


def learned(kind: Kind, x: Tensor, y: Tensor, rows: Tensor, seed: int) -> StreamingLearner:
    method, objective, _ = choose("slda", given={"views": kind.views})
    inputs = (
        Inputs(tuple(x.shape[1:]), x.dtype) if x.dtype == torch.uint8 else Inputs(tuple(x.shape[1:]), x.dtype, 0, 1)
    )
    learner = make_learner(method, objective, inputs, backbone=kind.backbone, seed=seed)
    assert isinstance(learner, StreamingLearner)
    learner.expect(int(y.max()) + 1)
    learner.learn(x, y, rows.numpy().reshape(-1, 10))
    return learner


def percent(learner: StreamingLearner, lam: float, shrink: str, features: Tensor, y: Tensor) -> float:
    scores = learner.discriminant(lam, shrink)(features)
    return 100 * float((scores.argmax(1) == y).double().mean())


if __name__ == "__main__":
    main()
