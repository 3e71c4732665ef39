"""Runs spread over worker processes, as `mnemon run` spreads them on a CPU; here each makes steps when it is told to.

Run as a program (`python -m mnemon.bench.workers NET METHOD FIRST LAST THREADS`) this is such a worker.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import torch

from mnemon.bench.machine import resident_mib
from mnemon.bench.shapes import learn_here, make_run, make_scenario


class BenchWorkers:
    """`runs` runs in `processes` processes."""

    def __init__(self, net: str, method: str, runs: int, processes: int) -> None:
        self.runs = runs
        threads = max(1, torch.get_num_threads() // processes)
        ends = [runs * k // processes for k in range(processes + 1)]
        self.workers = [
            subprocess.Popen(
                [sys.executable, "-m", "mnemon.bench.workers", net, method, str(first), str(last), str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": str(threads)},
            )
            for first, last in itertools.pairwise(ends)
        ]
        self.resident = 0.0  # MiB of all workers
        self._answers()

    def steps(self, count: int) -> None:
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{count}\n")
            worker.stdin.flush()
        self._answers()

    def _answers(self) -> None:
        """Wait for all; each says how many MiB it holds."""
        total = 0.0
        for worker in self.workers:
            assert worker.stdout is not None
            total += float(worker.stdout.readline())
        self.resident = total

    def close(self) -> None:
        for worker in self.workers:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.close()
            worker.wait()
            worker.stdout.close()


def main(net: str, method: str, first: int, last: int, threads: int) -> None:
    torch.set_num_threads(threads)
    cpu = torch.device("cpu")
    scenario = make_scenario(net, cpu)
    runs = [make_run(net, method, seed, scenario, cpu) for seed in range(first, last)]
    print(resident_mib(), flush=True)
    for line in sys.stdin:
        for run in runs:
            learn_here(run, run.batches[run.position : run.position + int(line)])
            run.position += int(line)
            run.learner.check()
        print(resident_mib(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
