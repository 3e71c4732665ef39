"""`mnemon bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from mnemon.cli.command import Command
from mnemon.cli.options import Device, Quiet, unset
from mnemon.cli.output import table
from mnemon.errors import MnemonError


def bench(
    methods: Annotated[
        str | None,
        unset("methods, separated by commas; `mnemon list methods`", "NAMES", "er,hybrid on a CPU, all on a GPU"),
    ] = None,
    nets: Annotated[
        str,
        arg(
            metavar="NAMES",
            help="mlp (shapes of Split MNIST), resnet18 (Split CIFAR-10), resnet18-84 (Split miniImageNet)",
        ),
    ] = "mlp,resnet18",
    runs: Annotated[
        str, arg(metavar="NUMBERS", help="how many concurrent runs of mnemon, separated by commas")
    ] = "1,15,60",
    rounds: Annotated[int, arg(metavar="N", help="how often each is timed, in turn; medians count")] = 7,
    steps: Annotated[int | None, unset("steps of each run in a round", "N", "by network and device")] = None,
    device: Device = "auto",
    precision: Annotated[str, arg(metavar="NAME", help="of our runs on a GPU: tf32, fp32 or bf16")] = "tf32",
    out: Annotated[Path, arg(help="folder for bench.json, bench.png and bench.svg")] = Path("out/bench"),
    quiet: Quiet = False,
) -> None:
    """Measure speed: a plain PyTorch loop, one run of mnemon and many, in turn; also inference and start-up.

    The images are random, in the shapes of the paper's streams: nothing has to be there. Times on a busy machine mean
    little on their own; the ratios, taken round by round, do.
    """
    from mnemon.bench import bench as measure  # the module
    from mnemon.learning.methods import methods as known
    from mnemon.runtime.device import Engine, choose_device

    try:
        many = [int(word) for word in runs.split(",")]
    except ValueError:
        raise MnemonError(f"runs are numbers separated by commas (1,15,60), not {runs!r}.") from None
    where = choose_device(device)
    chosen = methods.split(",") if methods else ["er", "hybrid"] if where.type == "cpu" else list(known())
    record = measure.bench(
        out,
        Engine(where, precision),
        nets=nets.split(","),
        methods=chosen,
        runs=many,
        rounds=rounds,
        steps=steps,
    )
    about = record["machine"]
    name = about["cpu"] if where.type == "cpu" else record["device"]
    print(f"{name}, {about['threads']} threads, torch {about['torch']}, {record['precision']}\n")
    head, rows = measure.lines(record)
    table("training: steps per second of all runs (times the faster eager loop: quartiles)", head, rows, right=3)
    table("one run beside one of ER (quartiles)", *measure.cost_lines(record), right=2)
    table("inference, a memory row for ten test images", *measure.inference_lines(record), right=2)
    table("start-up", ("what", "seconds"), [(k, f"{v:.2f}") for k, v in record["startup_seconds"].items()], right=1)
    print(f"record: {out / 'bench.json'}, picture: {out / 'bench.png'}")


COMMANDS = (Command("bench", bench),)
