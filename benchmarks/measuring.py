"""What asking costs `mnemon fit`: the time of test-then-train beside the time of learning, in one run.

    python benchmarks/measuring.py
    python benchmarks/measuring.py --only images --samples 6000

Both are measured as CPU time around each call, so they alternate within the run and the machine's mood cancels.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from common import header
from mnemon.own_data import asking
from mnemon.own_data.fit import fit


class Case(NamedTuple):
    what: str
    samples: int
    write: Callable[[Path, int], Path]
    options: dict[str, Any]


def images(folder: Path, samples: int) -> Path:
    """Ten classes of noisy pictures, 32 × 32."""
    rng = np.random.default_rng(0)
    means = rng.integers(60, 196, (10, 4, 4, 3)).repeat(8, 1).repeat(8, 2)
    for number in range(samples):
        path = folder / "photos" / f"class{number % 10}" / f"{number:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = rng.integers(-60, 61, (32, 32, 3))
        Image.fromarray((means[number % 10] + noise).clip(0, 255).astype(np.uint8)).save(path)
    return folder / "photos"


def vectors(features: int) -> Callable[[Path, int], Path]:
    def write(folder: Path, samples: int) -> Path:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, samples)
        x = rng.normal(size=(samples, features)) + rng.normal(size=(10, features))[y]
        np.savez(folder / "data.npz", x=x.astype(np.float32), y=y)
        return folder / "data.npz"

    return write


CASES = {
    "images": Case("images 32 × 32, hybrid, ResNet-18", 3000, images, {"method": "hybrid"}),
    "images-mlp": Case("images 12 × 12, hybrid, MLP", 6000, images, {"size": 12, "method": "hybrid"}),
    "images-slda": Case("images 32 × 32, slda on patches", 4000, images, {"method": "slda"}),
    "vectors": Case("20 features, hybrid, MLP", 10_000, vectors(20), {"method": "hybrid"}),
    "default": Case("20 features, hybrid with ridge, MLP", 10_000, vectors(20), {}),
    "vectors-slda": Case("20 features, slda", 200_000, vectors(20), {"method": "slda"}),
    "embeddings-slda": Case("512 features, slda", 50_000, vectors(512), {"method": "slda"}),
    "embeddings-ncm": Case(
        "512 features, class means", 10_000, vectors(512), {"method": "hybrid", "backbone": "identity"}
    ),
}


def timed(spent: dict[str, float], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*given: Any) -> Any:
        began = time.process_time()
        try:
            return call(*given)
        finally:
            spent[name] += time.process_time() - began

    return called


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--samples", type=int, help="instead of the number each case has")
    args = parser.parse_args()
    header()
    torch.set_num_threads(1)
    print("| samples | learned | predicted before | learning, s | predicting, s | ratio | learned per CPU second |")
    print("|---|---|---|---|---|---|---|")
    learn, count = asking.learn, asking.count_right
    for name in args.only:
        case = CASES[name]
        spent = {"learn": 0.0, "ask": 0.0}
        asking.learn, asking.count_right = timed(spent, "learn", learn), timed(spent, "ask", count)
        with tempfile.TemporaryDirectory() as folder:
            source = case.write(Path(folder), args.samples or case.samples)
            done = fit(source, Path(folder) / "model", save_every=1e9, **case.options)
        share, speed = spent["ask"] / spent["learn"], done.learned / sum(spent.values())
        print(
            f"| {case.what} | {done.learned:,} | {done.journal.predicted:,} | {spent['learn']:.2f} | {spent['ask']:.2f} | "
            f"{100 * share:.1f} % | {speed:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
