"""`mnemon demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from mnemon.cli.command import Command
from mnemon.cli.output import results
from mnemon.cli.seeds import seeds as read_seeds


def demo(
    out: Annotated[Path, arg(help="folder for the records and the report")] = Path("out/demo"),
    seeds: Annotated[str, arg(metavar="SEEDS", help="how many runs of each method, or which seeds (0-4, 1,3)")] = "5",
) -> None:
    """Show the paper's claim on real handwritten digits: softmax forgets, the generative classifier does not.

    Runs fine-tune, ER (softmax and NCM) and the paper's hybrid on Split Digits, and writes a report.
    """
    from mnemon import report
    from mnemon.experiments.runner import run_all
    from mnemon.experiments.spec import Spec
    from mnemon.runtime.progress import Progress

    rows = (("fine-tune", ()), ("er", ("softmax", "ncm")), ("hybrid", ("ncm",)))
    specs = [
        Spec(method, "split-digits", seed, classifiers=classifiers)
        for method, classifiers in rows
        for seed in read_seeds(seeds)
    ]
    results(run_all(specs, out, progress=Progress()))
    print(f"report: {report.write(out)}")


COMMANDS = (Command("demo", demo),)
