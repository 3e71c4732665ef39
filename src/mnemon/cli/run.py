"""`mnemon run`."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, arg

from mnemon.cli.command import Command
from mnemon.cli.hyper_parameters import collect_options
from mnemon.cli.options import Device, Loss, Method, On, Quiet, flag, unset
from mnemon.cli.output import results
from mnemon.cli.seeds import seeds as read_seeds


def run(
    method: Method,
    stream: Annotated[
        str,
        arg(metavar="NAME", help="the stream; `mnemon list streams`, or KIND-DATASET[-TASKS] with your own dataset"),
    ],
    loss: Loss = None,
    classifier: Annotated[
        str | None,
        unset(
            "another classifier, or several separated by commas: one training, one record each; `mnemon list classifiers`, or "
            "path/to/file.py:Class",
            "NAMES",
            "the method's own",
        ),
    ] = None,
    seeds: Annotated[
        str, arg(metavar="SEEDS", help="how many seeds (15 means 0 to 14), or which: 100-102, 7-7, 3,5")
    ] = "1",
    split: Annotated[
        str, arg(metavar="test|valid", help="evaluate on test, or on valid to choose hyper-parameters")
    ] = "test",
    order: Annotated[
        str, arg(metavar="natural|random", help="class order of a Split stream: natural (the paper's) or random")
    ] = "natural",
    backbone: Annotated[
        str | None,
        unset(
            "mlp, resnet18, patches (for slda), identity (no network) or auto, with options: mlp:width=200; "
            "`mnemon list backbones`",
            "NAME",
            "the dataset's own",
        ),
    ] = None,
    device: Device = "auto",
    jobs: Annotated[
        int | None,
        unset(
            "concurrent runs: on a GPU in one process, on a CPU in as many processes",
            "N",
            "32 on a GPU, one per core on a CPU",
        ),
    ] = None,
    on: On = None,
    precision: Annotated[
        str, arg(metavar="NAME", help="of a GPU: tf32, fp32, or bf16 (fastest; in the network's body alone)")
    ] = "tf32",
    deterministic: Annotated[
        bool, flag("the same bits each time, whatever else runs at the same time; slower; see also --precision fp32")
    ] = False,
    out: Annotated[Path, arg(help="folder for records and checkpoints; the same command continues there")] = Path(
        "out/runs"
    ),
    checkpoint_every: Annotated[float, arg(help="seconds between checkpoints")] = 30.0,
    cell: Annotated[
        str | None, unset("a word for the new records: which table or study they belong to", "WORD")
    ] = None,
    measure: Annotated[
        str | None,
        unset(
            "measure these too, separated by commas: prequential (each batch is predicted before it is learned; slower), "
            "probe (a linear classifier on the final features, trained with the whole stream)",
            "NAMES",
        ),
    ] = None,
    quiet: Quiet = False,
    *,
    hyper_parameters: Any = None,  # `_add_options` gives it its type
) -> None:
    """Run a method on a stream with one or many seeds; print the result with its 95 % interval.

    Each finished run is one JSON line in OUT/records.jsonl. Interrupted runs continue where they stopped, finished ones
    are not repeated. A dataset that is not here yet is fetched first.

    --help lists the hyper-parameters of all methods and losses; after --method NAME (and --loss NAME), only theirs.
    """
    from mnemon.experiments import protocol
    from mnemon.experiments.runner import run_all
    from mnemon.experiments.spec import Spec
    from mnemon.learning import plugins
    from mnemon.runtime.progress import Progress

    method, loss = plugins.use("method", method), None if loss is None else plugins.use("loss", loss)
    given = {name: value for name, value in dataclasses.asdict(hyper_parameters).items() if value is not None}
    classifiers = () if classifier is None else tuple(plugins.use("classifier", c) for c in classifier.split(","))
    measures = () if measure is None else tuple(measure.split(","))
    specs = [
        Spec(method, stream, seed, loss, classifiers, split, order, given, cell, backbone, measures)
        for seed in read_seeds(seeds)
    ]
    if notice := protocol.parse(stream).notice():
        logging.getLogger(__name__).info(notice)
    found = run_all(
        specs,
        out,
        device=device,
        jobs=jobs,
        pool=on,
        precision=precision,
        deterministic=deterministic,
        checkpoint_every=checkpoint_every,
        progress=Progress(quiet=quiet),
    )
    results(found)
    print(f"records: {out / 'records.jsonl'}")


def _add_options(given: Sequence[str]) -> None:
    """Give `run` an option for each hyper-parameter of any method or loss, those of a named file too."""
    Options = collect_options(given)
    run.__annotations__["hyper_parameters"] = OmitArgPrefixes[Options]  # type: ignore[misc,valid-type]
    run.__kwdefaults__ = {"hyper_parameters": Options()}


COMMANDS = (Command("run", run, prepare=_add_options),)
