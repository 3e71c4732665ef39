"""`mnemon run` and `mnemon tune`."""

from __future__ import annotations

import dataclasses
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, arg

from mnemon.cli.command import Command
from mnemon.cli.hyper_parameters import collect_options
from mnemon.cli.options import Device, Loss, Method, On, Quiet, flag, unset
from mnemon.cli.output import results, sentences, shell_commands, table
from mnemon.cli.seeds import seeds as read_seeds
from mnemon.errors import MnemonError


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
            "another classifier, or several with commas: one training, a record each; `mnemon list classifiers`, or "
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
            "runs side by side: on a GPU in one process, on a CPU in as many processes",
            "N",
            "32 on a GPU, one per core on a CPU",
        ),
    ] = None,
    on: On = None,
    precision: Annotated[
        str, arg(metavar="NAME", help="of a GPU: tf32, fp32, or bf16 (fastest; in the network's body alone)")
    ] = "tf32",
    deterministic: Annotated[
        bool, flag("the same bits at each repetition, whatever runs beside; slower, see --precision fp32")
    ] = False,
    out: Annotated[Path, arg(help="folder for records and checkpoints; the same command goes on there")] = Path(
        "out/runs"
    ),
    checkpoint_every: Annotated[float, arg(help="seconds between checkpoints")] = 30.0,
    cell: Annotated[
        str | None, unset("a word for the new records: which table or study they belong to", "WORD")
    ] = None,
    measure: Annotated[
        str | None,
        unset(
            "measured too, with commas: prequential (each batch is predicted before it is learned; slower), probe (a linear "
            "classifier on the final features, trained with the whole stream)",
            "NAMES",
        ),
    ] = None,
    quiet: Quiet = False,
    *,
    hyper_parameters: Any = None,  # `_add_options` gives it its type
) -> None:
    """Run a method on a stream with one or many seeds; print the result with its 95 % interval.

    Each finished run is one JSON line in OUT/records.jsonl. Interrupted runs go on where they stopped, finished ones
    are not repeated. A dataset that is not here yet is fetched first.
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


def tune(
    method: Method,
    stream: Annotated[str, arg(metavar="NAME", help="the stream; `mnemon list streams`")],
    loss: Loss = None,
    classifier: Annotated[
        str | None,
        unset(
            "another classifier, or several with commas: the best mean of any of them counts",
            "NAMES",
            "the method's own",
        ),
    ] = None,
    row: Annotated[
        str | None,
        unset("search for a row of `mnemon reproduce beyond`: its options, grid and classifiers, kept for it", "NAME"),
    ] = None,
    grid: Annotated[
        tuple[str, ...],
        unset(
            "options and their values to try: lr=0.05,0.1 gamma=0,0.5; the others stay at the recipe",
            "OPTION=VALUE,… …",
            "the paper's grid for the method",
        ),
    ] = (),
    seeds: Annotated[
        str, arg(metavar="SEEDS", help="which seeds, from 100 on: the smaller ones are the tables'")
    ] = "100-102",
    best: Annotated[int, arg(metavar="N", help="candidates that go on from the first seed to all seeds")] = 15,
    out: Annotated[Path, arg(help="folder for records and the log; the same command goes on there")] = Path("out/runs"),
    device: Device = "auto",
    on: On = None,
    keep: Annotated[bool, flag("make the chosen values the recipe, which `mnemon run` takes by itself")] = False,
    quiet: Quiet = False,
) -> None:
    """Choose hyper-parameters as the paper does: a grid on the validation split, the best mean accuracy wins.

    All candidates run on the first seed, the best 15 of them on all seeds; a grid of no more than that runs on all seeds
    at once. Test images and the seeds of the tables take no part. Finished runs are taken from OUT/records.jsonl, whichever
    device made them; a candidate that diverges counts as the worst. The log in OUT/tuning has the whole search.

      mnemon tune --method er --stream split-mnist --classifier softmax,ncm
      mnemon tune --method hybrid --row averaged-hybrid --stream split-mnist
    """
    from mnemon.experiments import protocol
    from mnemon.experiments.stats import estimate
    from mnemon.experiments.tuning import check_keep, search
    from mnemon.learning import plugins
    from mnemon.paper import beyond
    from mnemon.runtime.progress import Progress

    words = ["mnemon", "tune", "--method", method, "--stream", stream, *(["--loss", loss] if loss else [])]
    words += [*(["--classifier", classifier] if classifier else []), *(["--row", row] if row else [])]
    words += [*(["--grid", *grid] if grid else []), "--seeds", seeds, *(["--best", str(best)] if best != 15 else [])]
    plugins.use_installed()
    method, loss = plugins.use("method", method), None if loss is None else plugins.use("loss", loss)
    if keep:
        for what, name in {"method": method, "loss": loss}.items():
            if name is not None and not plugins.is_built_in(plugins.find(what, name)):
                raise MnemonError(f"recipes are for the methods and losses of mnemon, and {name} comes from outside.")
        check_keep(protocol.parse(stream))
        if classifier is not None and row is None:
            raise MnemonError(
                "a recipe is for the method's own classifier: --classifier and --keep go together with --row."
            )
    classifiers = () if classifier is None else tuple(plugins.use("classifier", c) for c in classifier.split(","))
    of_row = None if row is None else beyond.row(row)
    if of_row:
        beyond.check_search(of_row, method, loss, classifiers)
        loss = of_row.loss
    found = search(
        method,
        stream,
        out,
        loss=loss,
        classifiers=classifiers,
        row=beyond.row_setting(of_row, stream) if of_row else None,
        grid=grid,
        seeds=read_seeds(seeds),
        best=best,
        device=device,
        pool=on,
        progress=Progress(quiet=quiet),
        command=shlex.join(words),
    )
    shown = [c for i, c in enumerate(found.candidates) if i < 10 or c.values == found.recipe]
    rows = [
        (
            str(found.candidates.index(c) + 1),
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in c.values.values()),
            *([c.classifier or ""] if len(found.classifiers) > 1 else []),
            "diverged" if c.diverged else str(estimate(c.accuracies)),
            str(len(c.records)),
            ", ".join(["chosen"] * (c is found.chosen) + ["the recipe"] * (c.values == found.recipe)),
        )
        for c in shown
    ]
    print(f"{method} on {found.stream}: {len(found.candidates)} candidates, validation accuracy in percent")
    read_by = ["read by"] if len(found.classifiers) > 1 else []
    table("", ("", *found.grid, *read_by, "Average Accuracy", "runs", ""), rows)

    sentences([*found.sentences(), f"log: {found.log}"])
    if keep:
        print(f"kept: {beyond.keep(of_row, found) if of_row else found.keep()}")
    elif of_row or (classifier is None and found.chosen.values != found.recipe):
        again = [*words, "--out", str(out), "--keep"]
        print("to make the chosen values the recipe:")
        shell_commands([shlex.join(again)])


def _point_to_grid(option: str, value: str) -> str | None:
    """Answer a hyper-parameter given to `tune` as to `run`."""
    name = option.lstrip("-").replace("-", "_")
    if name not in {field.name for field in dataclasses.fields(collect_options())}:
        return None
    return f"tune has no option {option}; name the values to try with --grid {name}={value or 'VALUE,VALUE'}."


COMMANDS = (Command("run", run, prepare=_add_options), Command("tune", tune, unknown_option=_point_to_grid))
