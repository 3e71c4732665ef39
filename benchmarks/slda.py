"""slda beside what it is made of: its sums beside a plain matrix product, its samples beside ER's steps.

    python benchmarks/slda.py [--device cuda]

Both sides take turns within one process; medians over the rounds, and quartiles of the ratio of each round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from common import header, options, quartiles, write
from mnemon.learning.build import choose
from mnemon.learning.gaussian import Gaussian
from mnemon.learning.learner import BLOCK, Inputs
from mnemon.learning.learners import make_learner

FEATURES, ROWS, BATCH, CLASSES = 1896, 1280, 10, 10  # of K 237, and a block of batches
BACKBONE = "patches:filters=237"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20, help="steps of ER in a round")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()

    def timed(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        if args.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    made = torch.Generator().manual_seed(args.seed)
    f = torch.rand(ROWS, FEATURES, generator=made).to(args.device)
    y = torch.randint(0, CLASSES, (ROWS,), generator=made).to(args.device)
    sums = Gaussian(FEATURES, CLASSES, device=args.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    product = compare("sums of a block", "plain product", args.rounds, timed, lambda: sums.add(f, y), lambda: f.T @ f)

    x = torch.randint(0, 256, (ROWS, 3, 32, 32), dtype=torch.uint8, generator=made).to(args.device)
    rows = np.arange(ROWS).reshape(BLOCK, BATCH)
    inputs = Inputs((3, 32, 32))
    ours, er = (
        make_learner(*choose(name)[:2], inputs, backbone=backbone, seed=args.seed, device=args.device)
        for name, backbone in (("slda", BACKBONE), ("er", "resnet18"))
    )
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    few = rows[: args.steps]
    scale = len(rows) / len(few)  # ER's steps cost the same each, so a few of them tell
    samples = compare(
        "slda, a block",
        "er, eager",
        args.rounds,
        timed,
        lambda: ours.learn(x, y, rows),
        lambda: er.learn(x, y, few),
        scale,
    )
    write(args.out, {"device": args.device, "threads": args.threads, "product": product, "samples": samples})


def compare(
    name: str,
    other: str,
    rounds: int,
    timed: Callable[[Callable[[], object]], float],
    ours: Callable[[], object],
    theirs: Callable[[], object],
    scale: float = 1.0,
) -> dict[str, object]:
    """Both in turn; the first round warms up."""
    found = [(timed(ours), scale * timed(theirs)) for _ in range(rounds + 1)][1:]
    each = [statistics.median(side) / ROWS * 1e6 for side in zip(*found, strict=True)]
    low, middle, high = quartiles([a / b for a, b in found])
    print(f"{name}: {each[0]:.1f} µs a sample; {other}: {each[1]:.1f}; ratio {middle:.3f} ({low:.3f} to {high:.3f})")
    return {"us": each, "ratio": [low, middle, high]}


if __name__ == "__main__":
    main()
