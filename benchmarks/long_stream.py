"""The cost of a step and the memory of the process do not grow with the stream: 100,000 steps and more, new classes all along.

Images of 28×28 in the MLP, batch 10 + replay 10, a new class every thousand steps. Times are medians over units of 20
steps (planning and checks included). Two views:

windows      the units around step 100, 1,000, 10,000 … of one stream; the machine may be busier at one than at another
side by side the learner at the end of its stream against fresh ones around step 100, in turn: the ratio that counts

Past 128 classes the table of class rows doubles, and a larger table may cost more; that is the last line, on its own.

    python benchmarks/long_stream.py --steps 100000
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common import header, options, quartiles, write
from mnemon.bench.machine import resident_mib
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner

UNIT = 20  # steps timed at once
WINDOW = 10  # units in a window
POOL = 50  # images held for each class
TABLE = 128  # class rows held from the start
MORE = 200  # classes that come after the end of the stream, so that the table must double


class Source:
    """An endless stream over a fixed pool of images: two classes at first, one more every `every` steps, up to `limit`."""

    def __init__(self, classes: int, every: int, limit: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        prototypes = self.rng.integers(0, 256, (classes, 1, 784))
        noise = self.rng.integers(0, 256, (classes, POOL, 784))
        pixels = ((prototypes + 3 * noise) // 4).astype(np.uint8)
        self.x = torch.from_numpy(pixels.reshape(-1, 1, 28, 28))
        self.y: Tensor = torch.arange(classes).repeat_interleave(POOL)
        self.every, self.limit = every, limit

    def arrived(self, step: int) -> int:
        """Classes that can come at `step`."""
        return min(2 + step // self.every, self.limit)

    def rows(self, step: int) -> NDArray[np.int64]:
        return self.rng.integers(0, self.arrived(step) * POOL, (UNIT, 10))


class Walker:
    """A learner walking along a stream."""

    def __init__(self, method: str, source: Source, seed: int) -> None:
        choice = choose(method, given={"lr": 0.05, "memory_size": 500})
        self.learner = Learner(choice.method, choice.objective, Inputs((1, 28, 28)), backbone="mlp", seed=seed)
        self.learner.grow(TABLE)
        self.source = source

    def unit(self) -> float:
        """Learn UNIT steps; ms per step. Making the rows is not part of it."""
        rows = self.source.rows(self.learner.steps)
        start = time.perf_counter()
        self.learner.grow(self.source.arrived(self.learner.steps))
        self.learner.learn(self.source.x, self.source.y, rows)
        self.learner.check()
        return 1e3 * (time.perf_counter() - start) / UNIT

    def to(self, step: int) -> None:
        while self.learner.steps < step:
            self.unit()


def side_by_side(old: Walker, method: str, seed: int, rounds: int) -> dict[str, Any]:
    """`old` against fresh learners in their steps 100 … 300, in turn."""
    olds, fresh_ones = [], []
    for number in range(rounds):
        if number % WINDOW == 0:
            fresh = Walker(method, Source(16, 1000, 16, seed), seed)
            fresh.to(100)
            old.unit()  # as warm as the fresh one
        if number % 2:
            olds.append(old.unit())
            fresh_ones.append(fresh.unit())
        else:
            fresh_ones.append(fresh.unit())
            olds.append(old.unit())
    return {
        "step": old.learner.steps,
        "capacity": old.learner.net.capacity,
        "old_ms": float(np.median(olds)),
        "fresh_ms": float(np.median(fresh_ones)),
        "ratio_quartiles": quartiles([o / f for o, f in zip(olds, fresh_ones, strict=True)]),
    }


def walk(method: str, steps: int, seed: int, rounds: int) -> dict[str, Any]:
    source = Source(MORE, every=max(steps // 100, 1), limit=100, seed=seed)  # a hundred classes by the end
    walker = Walker(method, source, seed)
    marks = [10**k for k in range(2, 12) if 10**k < steps] + [steps]
    windows = []
    print(f"\n{method:10} {'step':>9} {'classes':>8} {'ms a step':>10} {'to step 100':>12} {'resident MiB':>13}")
    for mark in marks:
        walker.to(mark)
        ms = float(np.median([walker.unit() for _ in range(WINDOW)]))
        windows.append({"step": mark, "ms": ms, "resident_mib": resident_mib(), "classes": source.arrived(mark)})
        ratio = ms / windows[0]["ms"]
        print(
            f"{'':10} {mark:9,} {source.arrived(mark):8} {ms:10.3f} {ratio:12.2f} {windows[-1]['resident_mib']:13.1f}"
        )
    same = side_by_side(walker, method, seed, rounds)
    source.every, source.limit = 1, MORE
    grown = side_by_side(walker, method, seed, rounds)
    for what, r in (("the same table", same), ("200 classes", grown)):
        low, middle, high = r["ratio_quartiles"]
        print(
            f"  side by side, {what:14} step {r['step']:,} {r['old_ms']:.3f} ms, fresh {r['fresh_ms']:.3f} ms, "
            f"ratio {middle:.2f} ({low:.2f} … {high:.2f}), table of {r['capacity']} classes"
        )
    return {"method": method, "windows": windows, "side_by_side": same, "more_classes": grown}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="length of the stream (default 100,000)")
    parser.add_argument("--rounds", type=int, default=60, help="units of each, side by side (default 60)")
    parser.add_argument("--methods", nargs="+", choices=("er", "hybrid"), default=["er", "hybrid"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    header()
    results = [walk(method, args.steps, args.seed, args.rounds) for method in args.methods]
    write(args.out, {"benchmark": "long_stream", "steps": args.steps, "results": results})


if __name__ == "__main__":
    main()
