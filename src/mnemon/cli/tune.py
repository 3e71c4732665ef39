"""`mnemon tune`."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from mnemon.cli.command import Command
from mnemon.cli.hyper_parameters import collect_options
from mnemon.cli.options import Device, Loss, Method, Quiet, flag, unset
from mnemon.cli.output import sentences, shell_commands, table
from mnemon.cli.seeds import seeds as read_seeds
from mnemon.errors import MnemonError


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
    table("", ("", *found.names, *read_by, "Average Accuracy", "runs", ""), rows)

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


COMMANDS = (Command("tune", tune, unknown_option=_point_to_grid),)
