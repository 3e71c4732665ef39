"""Throughput of CPU runs on a Ray cluster of this machine beside that of worker processes, in turn.

Each side is a process that makes the same runs with its pool. While one works, the other and all its processes are stopped
(SIGSTOP), in turn every few seconds, so that what else the machine does meets both alike; only the seconds in which a side
may work are counted. Not counted either: the start of the cluster and a first short round, after which Ray's processes, which
stay, have imported torch. Worker processes are started anew in each round, as in each command. The records must be equal but
for times. The CPU seconds of all processes of a side are printed too: where the runs fill the cores, the ratio of the CPU
seconds is that of the throughputs, and other work on the machine changes it less.

    python benchmarks/ray_pool.py --iterations 1 --runs 4 --block 0.5    # small: a trial
    python benchmarks/ray_pool.py                                        # 16 runs of 20 s and more: seven minutes and more
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch

from common import header, options, quartiles, write
from mnemon.experiments.events import Emit, Event, Finished
from mnemon.experiments.job import Assignment
from mnemon.experiments.pools import pools
from mnemon.experiments.pools.pool import Pool
from mnemon.experiments.runner import run_all
from mnemon.experiments.spec import Spec
from mnemon.runtime import ray_cluster

POOLS = ("ray", "worker-processes")
TIMES = ("seconds", "finished", "at_once")


class Telling(Pool):
    """Another pool that prints a line for each run it has made."""

    name: ClassVar[str] = "telling"

    def __init__(self, pool: Pool) -> None:
        self.pool, self.close = pool, pool.close  # type: ignore[method-assign]

    def run(self, work: Assignment, emit: Emit, stop: Callable[[], int]) -> None:
        told: set[int] = set()

        def tell(event: Event) -> None:
            emit(event)
            if isinstance(event, Finished) and event.number not in told:  # several processes may find a record
                told.add(event.number)
                sys.stdout.write('"finished"\n')
                sys.stdout.flush()

        self.pool.run(work, tell, stop)


def make_runs(args: Namespace) -> None:
    """The process of a side: for each line of stdin, which has options and seeds, the runs and then their records."""
    torch.set_num_threads(args.jobs)  # shared by as many processes: one thread each
    with ray_cluster.connected() if args.side == "ray" else contextlib.nullcontext():
        for line in sys.stdin:
            chosen, seeds = json.loads(line)
            specs = [Spec(args.method, args.stream, seed, options=chosen) for seed in seeds]
            with tempfile.TemporaryDirectory() as out:
                found = run_all(specs, Path(out), device="cpu", jobs=args.jobs, pool=Telling(pools()[args.side]()))
            kept = [{name: value for name, value in record.items() if name not in TIMES} for record in found]
            print(json.dumps(kept), flush=True)


class Side:
    """A process of `make_runs`, stopped but within `work`."""

    def __init__(self, pool: str) -> None:
        command = [sys.executable, *sys.argv, "--side", pool]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.heard = threading.Event()
        self.clock = threading.Lock()
        self.stopped: list[int] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def cpu_seconds(self) -> float:
        """Of the process and all that descend or descended from it."""
        ticks = 0
        for process in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(
                    map(int, fields[11:15])
                )  # its own in user and system mode, and those of children that ended
        return ticks / os.sysconf("SC_CLK_TCK")

    def ask(self, chosen: dict[str, Any], seeds: list[int]) -> None:
        self.worked: float = 0.0  # seconds, before this turn
        self.since: float | None = None  # when this turn began; None: stopped
        self.finished: list[float] = []  # seconds of work after which a run was
        self.records: list[Any] | None = None
        self.heard.clear()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([chosen, seeds]) + "\n")
        self.process.stdin.flush()

    @property
    def seconds(self) -> float:
        """Of work so far."""
        return self.worked + (0.0 if self.since is None else time.perf_counter() - self.since)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.clock:
                found = json.loads(line)
                if found == "finished":
                    self.finished.append(self.seconds)
                else:
                    self.worked, self.since, self.records = self.seconds, None, found
                    self.heard.set()
        self.heard.set()  # it has ended

    def work(self, seconds: float | None = None) -> None:
        """Let it work so long, or until the runs are made."""
        with self.clock:
            self.since = time.perf_counter()
        self.resume()
        self.heard.wait(seconds)
        self._stop()
        with self.clock:
            self.worked, self.since = self.seconds, None
        self._stop()  # what it started meanwhile
        if self.heard.is_set() and self.records is None:
            raise SystemExit("a side ended early")

    def resume(self) -> None:
        for process in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    def _stop(self) -> None:
        """The process and all that descend from it."""
        self.stopped = descendants(self.process.pid)
        for process in self.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)

    def end(self) -> None:
        self.resume()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def descendants(root: int) -> list[int]:
    """A process, its children, theirs."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        process, parent = map(int, line.split())
        children.setdefault(parent, []).append(process)
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def in_turn(sides: dict[str, Side], chosen: dict[str, Any], seeds: list[int], block: float) -> None:
    for side in sides.values():
        side.ask(chosen, seeds)
    while left := [side for side in sides.values() if side.records is None]:
        for side in left:
            side.work(block)
    if sides["ray"].records != sides["worker-processes"].records:
        raise SystemExit("the records differ")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--method", default="er")
    parser.add_argument("--stream", default="split-mnist")
    parser.add_argument("--iterations", type=int, default=70, help="steps a batch: how long a run is (default 70)")
    parser.add_argument("--runs", type=int, default=16, help="runs of a round (default 16)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds that are counted (default 1)")
    parser.add_argument("--block", type=float, default=2.0, help="seconds of a side's turn (default 2)")
    parser.add_argument(
        "--jobs", type=int, default=torch.get_num_threads(), help="runs at once (default: one per core)"
    )
    parser.add_argument("--side", choices=POOLS, help="of a side's own process")
    args = parser.parse_args()
    if args.side:
        make_runs(args)
        return
    header()
    rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        sides = {}
        for pool in POOLS:
            sides[pool] = Side(pool)
            stack.callback(sides[pool].end)
            sides[pool].ask({}, list(range(args.jobs)))
            sides[pool].work()  # starts, and the round that is not counted
        for turn in range(args.rounds):
            first = args.seed + turn * args.runs
            before = {name: side.cpu_seconds() for name, side in sides.items()}
            in_turn(sides, {"iterations": args.iterations}, list(range(first, first + args.runs)), args.block)
            rows.append({name: {"seconds": side.seconds, "finished": side.finished} for name, side in sides.items()})
            used = {name: side.cpu_seconds() - before[name] for name, side in sides.items()}
            rows[-1] |= {"cpu_seconds": used, "load": os.getloadavg()[0]}
            there, here = (sides[pool].seconds for pool in POOLS)
            print(f"{args.runs} runs of {here * args.jobs / args.runs:.1f} s, {args.jobs} at once: ", end="")
            print(f"Ray {args.runs / there:.4f} runs/s, worker processes {args.runs / here:.4f} runs/s, ", end="")
            print(f"ratio {here / there:.3f}; load {os.getloadavg()[0]:.1f}")
            there, here = (used[pool] for pool in POOLS)
            print(f"CPU seconds: Ray {there:.1f}, worker processes {here:.1f}, ratio {here / there:.3f}", flush=True)
    ratios = [
        a / b for row in rows for a, b in zip(*(waves(row[pool], args.jobs) for pool in POOLS[::-1]), strict=True)
    ]
    low, middle, high = quartiles(ratios)
    print(f"throughput on Ray to that of worker processes, {args.jobs} runs after {args.jobs}: ", end="")
    print(f"{middle:.3f} ({low:.3f} … {high:.3f})")
    write(args.out, {"method": args.method, "stream": args.stream, "jobs": args.jobs, "rounds": rows})


def waves(side: dict[str, Any], jobs: int) -> list[float]:
    """The seconds from each `jobs` finished runs to the next."""
    ends = [0.0, *side["finished"][jobs - 1 :: jobs]]
    return [b - a for a, b in itertools.pairwise(ends)]


if __name__ == "__main__":
    main()
