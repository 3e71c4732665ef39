"""Throughput of CPU runs on a Ray cluster of this machine beside that of worker processes, in turn.

The cluster is started before the clock, and each pool makes one round that is not counted: Ray's processes, which stay, have
imported torch by then; worker processes are started anew in each round, as in each command. The runs of a round are the same
for both pools and have seeds of their own in each round. Records are compared: they must be equal but for times.

    python benchmarks/ray_pool.py                                                        # small: a trial
    python benchmarks/ray_pool.py --runs 16 --stream split-cifar10 --method er --rounds 3   # runs of 20 s and more
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from common import header, options, quartiles, write
from mnemon.experiments.pools.pool import Pool
from mnemon.experiments.pools.ray_pool import Ray
from mnemon.experiments.pools.worker_processes import WorkerProcesses
from mnemon.experiments.record import Record
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.runtime import ray_cluster

TIMES = ("seconds", "finished", "at_once")


def timed(pool: Pool, specs: list[Spec], jobs: int) -> tuple[float, list[Record]]:
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        found = run_all(specs, Path(out), device="cpu", jobs=jobs, pool=pool)
        return time.perf_counter() - start, found


def compared(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in TIMES}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--method", default="er")
    parser.add_argument("--stream", default="split-digits")
    parser.add_argument("--runs", type=int, default=4, help="runs of a round (default 4)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds that are counted (default 2)")
    parser.add_argument(
        "--jobs", type=int, default=torch.get_num_threads(), help="runs at once (default: one per core)"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.jobs)  # shared by as many processes: one thread each
    header()
    rows = []
    with ray_cluster.connected():
        for turn in range(args.rounds + 1):
            first = args.seed + turn * args.runs
            specs = [Spec(args.method, args.stream, seed) for seed in range(first, first + args.runs)]
            there, on_ray = timed(Ray(), specs, args.jobs)
            here, in_workers = timed(WorkerProcesses(), specs, args.jobs)
            if list(map(compared, on_ray)) != list(map(compared, in_workers)):
                raise SystemExit("the records differ")
            alone = sum(sum(record["seconds"].values()) for record in in_workers) / len(in_workers)
            if turn:
                rows.append({"ray": there, "worker_processes": here, "seconds_per_run": alone})
                print(
                    f"{args.runs} runs of {alone:.1f} s, {args.jobs} at once: Ray {args.runs / there:.3f} runs/s, "
                    f"worker processes {args.runs / here:.3f} runs/s, ratio {here / there:.2f}"
                )
    low, middle, high = quartiles([row["worker_processes"] / row["ray"] for row in rows])
    print(f"throughput on Ray to that of worker processes: {middle:.2f} ({low:.2f} … {high:.2f})")
    write(args.out, {"method": args.method, "stream": args.stream, "jobs": args.jobs, "rounds": rows})


if __name__ == "__main__":
    main()
