"""The training step of other people's systems, as they are, beside ours: one run on one device, in turn.

Batch 10, replay 10, memory 1000, the reduced ResNet-18 (nf 20), random images in the shape of CIFAR-10, or with --pixels 84 of
miniImageNet with its 100 classes (RaptorMai alone has both). Evaluation is excluded. Four
competitors for each method: one process of theirs, N processes of theirs at once, one run of ours, N runs of ours. The memory
holds 1000 images after 100 steps: with a shorter --warm-up the work that begins when it is full is not timed.

    git clone https://github.com/RaptorMai/online-continual-learning
    git clone https://github.com/aimagelab/mammoth && git -C mammoth checkout ea967c3
    pip install torchvision kornia pandas psutil scikit-image        # RaptorMai
    pip install torchvision kornia timm==0.9.8 six googledrivedownloader==0.4 onedrivedownloader ftfy regex   # Mammoth
    pip install avalanche-lib==0.6.0
    python benchmarks/peers.py --raptormai online-continual-learning --mammoth mammoth --avalanche
    python benchmarks/peers.py --raptormai online-continual-learning --pixels 84 --methods gss,aser --theirs 1
    python benchmarks/peers.py --raptormai online-continual-learning --accuracy       # ER on Split CIFAR-10, theirs and ours

With --out FILE each row of the table is written as soon as it is there. With --accuracy so is each value, and the same command
goes on after it was stopped.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import header, options, save
from mnemon.bench import timing
from mnemon.bench.shapes import make_run, make_scenario
from mnemon.bench.training import Ours, Timed
from mnemon.bench.workers import BenchWorkers
from mnemon.errors import MnemonError, check_known
from mnemon.experiments.executor import executor_for
from mnemon.experiments.run import Run
from mnemon.metrics import confidence_interval
from mnemon.runtime.device import Engine, choose_device
from peer_systems import SYSTEMS
from peer_worker import Worker, cifar_run, mixed

NETS = {32: "resnet18", 84: "resnet18-84"}  # by pixels
TITLES = {"raptormai": "RaptorMai", "mammoth": "Mammoth", "avalanche": "Avalanche"}
WITHOUT_OPERATORS = """\
torchvision is installed for another build of torch: its Python part was used, its compiled operators were not
loaded. They are for detection; no step timed here calls one."""


def parse() -> argparse.Namespace:
    parser = options(__doc__)
    parser.set_defaults(threads=torch.get_num_threads())
    parser.add_argument("--raptormai", type=Path, metavar="DIR", help="a clone of RaptorMai/online-continual-learning")
    parser.add_argument("--mammoth", type=Path, metavar="DIR", help="a clone of aimagelab/mammoth")
    parser.add_argument("--avalanche", action="store_true", help="avalanche-lib, which is installed")
    parser.add_argument("--methods", help="with commas, in this order (default: all that a system has)")
    parser.add_argument("--processes", type=int, default=15, help="how many at once, theirs and ours (default 15)")
    parser.add_argument("--theirs", type=int, help="how many of theirs at once (default: as --processes; 1: one alone)")
    parser.add_argument("--pixels", type=int, choices=NETS, default=32, help="the side of an image (default 32)")
    parser.add_argument("--warm-up", type=int, default=130, help="steps before the time counts (default 130)")
    parser.add_argument("--window", type=int, default=63, help="steps of each in turn (default 63)")
    parser.add_argument("--windows", type=int, default=10, help="windows of each (default 10)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    parser.add_argument("--accuracy", action="store_true", help="instead: ER's accuracy on Split CIFAR-10")
    parser.add_argument("--seeds", type=int, default=5, help="with --accuracy: streams 0 … N−1 (default 5)")
    parser.add_argument(
        "--images", type=int, default=0, help="with --accuracy: per class, train and test (default all)"
    )
    args = parser.parse_args()
    args.theirs = args.theirs or args.processes
    return args


def chosen(args: argparse.Namespace) -> list[tuple[str, Path, str]]:
    """Each system that was asked for with its directory and each of its methods; by method, if methods were asked for."""
    directories = {
        "raptormai": args.raptormai,
        "mammoth": args.mammoth,
        "avalanche": Path() if args.avalanche else None,
    }
    wanted = args.methods.split(",") if args.methods else []
    for name in wanted:
        check_known("method", name, {each for system in SYSTEMS.values() for each in system.METHODS})
    found = []
    for system, directory in directories.items():
        if directory is None:
            continue
        if not directory.is_dir():
            raise MnemonError(f"{directory} is no directory; clone {TITLES[system]} there.")
        found += [(system, directory, name) for name in SYSTEMS[system].METHODS if not wanted or name in wanted]
    if not found:
        raise MnemonError("nothing to compare with; give --raptormai DIR, --mammoth DIR or --avalanche.")
    if args.pixels != 32 and (args.accuracy or {system for system, _, _ in found} != {"raptormai"}):
        raise MnemonError(f"--pixels {args.pixels} is for the steps of RaptorMai alone.")
    return sorted(found, key=lambda one: wanted.index(one[2])) if wanted else found


def timed(system: str, directory: Path, method: str, args: argparse.Namespace, engine: Engine) -> dict[str, Any]:
    """Milliseconds per step of one run, window by window."""
    net, many, steps = NETS[args.pixels], args.processes, args.warm_up + (args.windows + 1) * args.window
    cores = os.cpu_count() or 1
    peer = partial(Worker, system, directory, method, steps=steps, images=net, device=engine.device)
    scenario = mixed(make_scenario(net, engine.device), steps)
    release()

    def ours(count: int) -> Timed:
        if engine.device.type == "cpu" and count > 1:
            return BenchWorkers(net, method, count, min(cores, count))
        return Ours([make_run(net, method, seed, scenario, engine.device) for seed in range(count)], engine)

    theirs: dict[str, Worker] = {}
    those: dict[str, Timed] = {}
    try:
        theirs["theirs"] = peer(threads=args.threads)
        if args.theirs > 1:
            spread = min(args.threads, max(1, cores // args.theirs))  # threads of each of many processes
            theirs["theirs at once"] = peer(count=args.theirs, threads=spread)
        for worker in theirs.values():  # theirs start and warm up while ours do
            worker.begin(f"steps {args.warm_up}", "task")
        for name, count in {"ours": 1, "ours at once": many}.items():
            if name == "ours" or many > 1:
                those[name] = ours(count)
                those[name].steps(args.warm_up)
        for worker in theirs.values():
            worker.wait()
        those = theirs | those
        taken = timing.interleaved(
            {name: partial(each.steps, args.window) for name, each in those.items()}, args.windows
        )
    finally:
        for each in (theirs | those).values():
            each.close()
    each_ms = {name: [1e3 * s / args.window / those[name].runs for s in taken[name]] for name in those}
    ratios = {
        f"{above} / {below}": timing.ratio(each_ms[above], each_ms[below])
        for above, below in (("theirs", "ours"), ("theirs", "ours at once"), ("theirs at once", "ours at once"))
        if above in each_ms and below in each_ms
    }
    return {"system": system, "method": method, "ms": each_ms, "ratios": ratios} | theirs["theirs"].ready


def release() -> None:
    """The memory of the row before."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def show(found: dict[str, Any]) -> None:
    """One line of the table."""
    cells = [f"{found['method']}, {TITLES[found['system']]}"]
    names = ("theirs", "theirs at once", "ours", "ours at once")
    for values in [found["ms"][name] for name in names if name in found["ms"]]:
        low, middle, high = np.percentile(values, [25, 50, 75])
        cells.append(f"{ms(middle)} ({ms(low)} … {ms(high)})")
    cells += [f"{middle:.2f} × ({low:.2f} … {high:.2f})" for middle, low, high in found["ratios"].values()]
    print(f"| {' | '.join(cells)} |", flush=True)


def ms(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def speed(args: argparse.Namespace, engine: Engine, asked: dict[str, Any]) -> None:
    """The table, row by row. What fails is said and left out: the others can still be measured."""
    n, m = args.processes, args.theirs
    size = f"images of {args.pixels} × {args.pixels} pixels, median (quartiles)"
    print(f"ms per step of one run, {size}; {args.warm_up} steps to warm up, {args.windows} windows of {args.window}")
    titles = ["1 of theirs", *[f"{m} of theirs"] * (m > 1), "1 of ours", *[f"{n} of ours"] * (n > 1)]
    titles += ["1 : 1", *[f"1 : {n}"] * (n > 1), *[f"{m} : {n}"] * (m > 1 and n > 1)]
    print(f"| | {' | '.join(titles)} |\n|{'---|' * (len(titles) + 1)}", flush=True)
    found: list[dict[str, Any]] = []
    for system, directory, method in chosen(args):
        try:
            found.append(timed(system, directory, method, args, engine))
        except Exception as error:  # whatever it is
            why = str(error) if isinstance(error, MnemonError) else f"{type(error).__name__}: {error}"
            print(f"not measured: {method}, {TITLES[system]}: {' '.join(why.split())}", file=sys.stderr, flush=True)
            continue
        show(found[-1])
        save(args.out, {"benchmark": "peers", "options": asked, "steps": found})
    if not found:
        raise MnemonError("nothing could be measured.")
    if any(one["torchvision_without_operators"] for one in found):
        print(f"\n{WITHOUT_OPERATORS}")
    if args.out:
        print(f"\nrecord: {args.out}")


def accuracy(args: argparse.Namespace, engine: Engine, asked: dict[str, Any]) -> None:
    """Average accuracy of ER after the last task, of each system and of ours, on the same streams. Each value is printed and
    written at once; with the same --out and options what is written there already is not made again."""
    systems = {system: directory for system, directory, method in chosen(args) if method == "er"}
    found: dict[str, dict[str, float]] = kept(args.out, asked)
    for seed in range(args.seed, args.seed + args.seeds):
        for system in (*systems, "ours"):
            values = found.setdefault(system, {})
            if str(seed) not in values:
                run, began = cifar_run("er", seed, args.images, engine.device), time.monotonic()
                value = of_ours(run) if system == "ours" else of_theirs(system, systems[system], run, args, engine)
                values[str(seed)] = value
                print(f"seed {seed}: {name_of(system)} {value:.2f}, {time.monotonic() - began:.0f} s", flush=True)
                save(args.out, {"benchmark": "peers", "options": asked, "accuracy": found})
    size = f"{args.images} images per class" if args.images else "all images"
    print(f"\nER, Split CIFAR-10, {size}: average accuracy, mean ± half width of the 95 % interval")
    for system, values in found.items():
        each = ", ".join(f"{value:.2f}" for value in values.values())
        if len(values) > 1:
            mean, half = confidence_interval(list(values.values()))
            print(f"{name_of(system):10} {mean:.2f} ± {half:.2f}   ({each})")
        else:
            print(f"{name_of(system):10} {each}")


def name_of(system: str) -> str:
    return TITLES.get(system, system)


def kept(out: Path | None, asked: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The accuracies that an earlier command with the same options left in its record."""
    if out is None or not out.exists():
        return {}
    record = json.loads(out.read_text())
    if record.get("options") != asked or "accuracy" not in record:
        raise MnemonError(f"{out} is the record of another command; give another --out.")
    return dict(record["accuracy"])


def of_theirs(system: str, directory: Path, run: Run, args: argparse.Namespace, engine: Engine) -> float:
    worker = Worker(
        system, directory, "er", seed=run.seed, threads=args.threads, steps=0, images=str(args.images),
        device=engine.device,
    )  # fmt: skip
    try:
        for number, (start, stop) in enumerate(itertools.pairwise([0, *run.ends])):
            if number:
                worker.next_task()
            worker.steps(stop - start)
        return worker.accuracy()
    finally:
        worker.close()


def of_ours(run: Run) -> float:
    executor = executor_for(run)
    while not run.finished:
        executor.advance()
    (last,) = run.rows[-1].values()
    return float(np.mean(last["accuracy"]))


def main() -> None:
    args = parse()
    torch.set_num_threads(args.threads)
    counts = (
        ("threads", "images")
        if args.accuracy
        else ("processes", "theirs", "pixels", "warm_up", "window", "windows", "images")
    )
    asked = {key: getattr(args, key) for key in ("device", *counts)}
    chosen(args)  # what is wrong is said before anything is printed
    engine = Engine(choose_device(args.device))
    header()
    with engine.in_use():
        if args.accuracy:
            accuracy(args, engine, asked)
        else:
            speed(args, engine, asked)


if __name__ == "__main__":
    try:
        main()
    except MnemonError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
