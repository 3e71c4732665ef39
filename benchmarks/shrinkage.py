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
FIXED = {"λ 0.001": 2, "λ 0.01": 4, "λ 0.1": 6}  # places in the grid
NOISE = (3, 10, 30)  # samples of noise for each class
OWN = NOISE.index(10)  # what mnemon takes


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
    record: dict[str, list[dict[str, float]]] = {}
    for name in args.kinds:
        print(f"\n{name}; accuracy on held-out samples, %\n", flush=True)
        print(f"| stream | samples | classes | best λ | its accuracy | λ auto | its accuracy | {' | '.join(FIXED)} |")
        print("|---|---|---|---|---|---|---|" + "---|" * len(FIXED))
        lost: dict[str, list[float]] = defaultdict(list)
        for stream in defaults.STREAMS[KINDS[name].streams]:
            if not stream.drifts and (args.streams is None or stream.name in args.streams):
                record[f"{name}: {stream.name}"] = of_stream(KINDS[name], stream, args.draws, args.seed, lost)
        print("\npoints lost to the best λ, mean over streams and sizes, and the most:")
        for reading, points in lost.items():
            print(f"  {reading:24s} {np.mean(points):5.2f} {max(points):6.1f}")
    write(args.out, {"grid": GRID, "lines": record})


def of_stream(
    kind: Kind, stream: defaults.Stream, draws: int, seed: int, lost: dict[str, list[float]]
) -> list[dict[str, float]]:
    """Print a line for each number of samples; append to `lost` what each choice of λ loses to the best of the grid."""
    x, y = stream.samples()
    samples = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if x.ndim == 4 else x)
    labels = torch.from_numpy(np.unique(y, return_inverse=True)[1])
    asked = min(ASKED, len(labels) // 4)
    orders = [torch.from_numpy(np.random.default_rng((seed, d)).permutation(len(labels))) for d in range(draws)]
    lines: list[dict[str, float]] = []
    for size in (size for size in SIZES if size <= len(labels) - asked):
        found, autos, classes = [], [], []
        for draw, order in enumerate(orders):
            test, rows = order[:asked], order[asked : asked + size]
            learner = learned(kind, samples, labels, rows, draw)
            auto = learner.shrinkage()
            features = torch.cat([learner.output(part).features for part in torch.split(samples[test], 500)])
            readings = [*GRID, *(auto / NOISE[OWN] * noise for noise in NOISE)]
            found.append([percent(learner, lam, kind.shrink, features, labels[test]) for lam in readings])
            autos.append(auto)
            classes.append(len(torch.unique(labels[rows])))
        on_grid, noise = np.split(np.mean(found, axis=0), [len(GRID)])
        best, auto = int(on_grid.argmax()), float(np.mean(autos))
        fixed = {name: float(on_grid[place]) for name, place in FIXED.items()}
        cells = [stream.name, f"{size:,}", f"{np.mean(classes):.0f}", f"{GRID[best]:.2g}", f"{on_grid[best]:.1f}"]
        cells += [f"{auto:.2g}", *(f"{value:.1f}" for value in (noise[OWN], *fixed.values()))]
        print(f"| {' | '.join(cells)} |", flush=True)
        for name, value in (
            fixed | {f"λ = {k} · classes / samples": v for k, v in zip(NOISE, noise, strict=True)}
        ).items():
            lost[name].append(float(on_grid[best] - value))
        by_lambda = {f"{lam:.3g}": float(value) for lam, value in zip(GRID, on_grid, strict=True)}
        lines.append({"samples": size, "auto": auto, "its accuracy": float(noise[OWN]), **by_lambda})
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
