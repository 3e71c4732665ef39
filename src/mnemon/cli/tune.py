"""`mnemon tune`."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from mnemon.cli.command import Command
from mnemon.cli.hyper_parameters import collect_options
from mnemon.cli.options import Device, Loss, Method, On, Quiet, flag, unset
from mnemon.cli.output import sentences, shell_commands, table
from mnemon.cli.seeds import seeds as read_seeds
from mnemon.errors import MnemonError, check_known

if TYPE_CHECKING:
    from mnemon.experiments.tuning import Search

SHOWN = 10  # candidates, the best first


def tune(
    method: Method,
    stream: Annotated[str, arg(metavar="NAME", help="the stream; `mnemon list streams`")],
    loss: Loss = None,
    classifier: Annotated[
        str | None,
        unset(
            "another classifier, or several separated by commas: the best mean of any of them counts",
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
    search: Annotated[
        str,
        arg(metavar="grid|tpe|random", help="every value of a grid, or proposals from a space by TPE or at random"),
    ] = "grid",
    space: Annotated[
        tuple[str, ...],
        unset(
            "of tpe and random: ranges and values to search, lr=1e-3..0.5:log gamma=0..2 divisor=active,batch; whole numbers "
            "where the option takes them; the others stay at the recipe",
            "OPTION=LOW..HIGH …",
            "what the grid spans",
        ),
    ] = (),
    trials: Annotated[int | None, unset("of tpe and random: candidates to propose", "N", "64")] = None,
    batch: Annotated[int | None, unset("of tpe and random: candidates proposed, and run, at once", "N", "16")] = None,
    search_seed: Annotated[int | None, unset("of tpe and random: another one proposes others", "N", "0")] = None,
    memory_size: Annotated[int | None, unset("search at another memory size", "N", "the stream's")] = None,
    batch_size: Annotated[int | None, unset("search at another batch size", "N", "10")] = None,
    replay_size: Annotated[int | None, unset("search at another number of replayed samples", "N", "10")] = None,
    backbone: Annotated[
        str | None, unset("search with another backbone; `mnemon list backbones`", "NAME", "the dataset's own")
    ] = None,
    order: Annotated[
        str, arg(metavar="natural|random", help="class order of a Split stream: natural (the paper's) or random")
    ] = "natural",
    seeds: Annotated[
        str, arg(metavar="SEEDS", help="which seeds, from 100 on: the smaller ones are the tables'")
    ] = "100-102",
    best: Annotated[int | None, unset("of grid: candidates that run on all seeds after the first", "N", "15")] = None,
    out: Annotated[Path, arg(help="folder for records and the log; the same command continues there")] = Path(
        "out/runs"
    ),
    device: Device = "auto",
    on: On = None,
    keep: Annotated[bool, flag("make the chosen values the recipe, which `mnemon run` takes by itself")] = False,
    quiet: Quiet = False,
) -> None:
    """Choose hyper-parameters on the validation split: the paper's grid, or proposals by TPE.

    The best mean accuracy wins. grid: all candidates run on the first seed, the best 15 of them on all seeds; a grid of no
    more than that runs on all seeds at once. tpe: Optuna proposes 64 candidates in batches of 16, each from what the batches
    before gave; after each seed, candidates below the median of all are pruned. Needs the extra: pip install 'mnemon[tune]'.

    Test images and the seeds of the tables take no part. Finished runs are taken from OUT/records.jsonl, whichever device made
    them, so the same command continues where it stopped; a candidate that diverges counts as the worst. The log in OUT/tuning
    has the whole search.

      mnemon tune --method er --stream split-mnist --classifier softmax,ncm
      mnemon tune --method hybrid --row averaged-hybrid --stream split-mnist
      mnemon tune --method er --stream split-mnist --search tpe --trials 32
      mnemon tune --method er --stream split-mnist --memory-size 200
    """
    from mnemon.experiments import protocol, tuning
    from mnemon.learning import plugins
    from mnemon.paper import beyond
    from mnemon.runtime import ray_cluster
    from mnemon.runtime.progress import Progress

    check_known("search", search, ("grid", "tpe", "random"))
    of_grid = {"grid": grid, "best": best}
    of_space = {"space": space, "trials": trials, "batch": batch, "search_seed": search_seed}
    own, others = (of_grid, of_space) if search == "grid" else (of_space, of_grid)
    for option, value in others.items():
        if value not in (None, ()):
            meant = "tpe or random" if search == "grid" else "grid"
            raise MnemonError(f"--{option.replace('_', '-')} is an option of --search {meant}, not of {search}.")
    words = ["mnemon", "tune", "--method", method, "--stream", stream, *(["--loss", loss] if loss else [])]
    words += [*(["--classifier", classifier] if classifier else []), *(["--row", row] if row else [])]
    words += [*(["--grid", *grid] if grid else []), *(["--search", search] if search != "grid" else [])]
    words += [*(["--space", *space] if space else []), "--seeds", seeds]
    sizes = {"memory_size": memory_size, "batch_size": batch_size, "replay_size": replay_size}
    held = tuning.Protocol({name: size for name, size in sizes.items() if size is not None}, backbone, order)
    for option, value in held.given.items():
        words += [f"--{option.replace('_', '-')}", str(value)]
    given: dict[str, Any] = {option: value for option, value in own.items() if value not in (None, ())}
    for option, value in given.items():
        if isinstance(value, int) and (option, value) != ("best", 15):
            words += [f"--{option.replace('_', '-')}", str(value)]
    plugins.use_installed()
    written = {"--method": method, "--loss": loss}
    method, loss = plugins.use("method", method), None if loss is None else plugins.use("loss", loss)
    kinds = {name: plugins.find(what, name) for what, name in {"method": method, "loss": loss}.items() if name}
    outside = [name for name, kind in kinds.items() if not plugins.is_built_in(kind)]
    if keep:
        if outside:
            raise MnemonError(
                f"recipes are for the methods and losses of mnemon, and {outside[0]} comes from outside; leave out --keep and "
                "give the chosen values to mnemon run."
            )
        tuning.check_keep(protocol.parse(stream), held)
        if classifier is not None and row is None:
            raise MnemonError(
                "a recipe is for the method's own classifier: --classifier and --keep go together with --row."
            )
    read_by = {plugins.use("classifier", text): text for text in ([] if classifier is None else classifier.split(","))}
    classifiers = tuple(read_by)
    of_row = None if row is None else beyond.row(row)
    if of_row:
        beyond.check_search(of_row, method, loss, classifiers)
        loss = of_row.loss
    about: dict[str, Any] = {
        "loss": loss,
        "classifiers": classifiers,
        "row": beyond.row_setting(of_row, stream) if of_row else None,
        "held": held,
        "seeds": read_seeds(seeds),
        "device": device,
        "pool": on,
        "progress": Progress(quiet=quiet),
        "command": shlex.join(words),
    }
    found: Search
    with ray_cluster.connected() if on == "ray" else contextlib.nullcontext():  # one cluster for all rounds
        if search == "grid":
            found = tuning.search(method, stream, out, **about, **given)
        else:
            found = tuning.search_space(method, stream, out, sampler=search, **about, **given)
    print(f"{method} on {found.stream}: {found.size}, validation accuracy in percent")
    _print_candidates(found)
    sentences([*found.sentences(), f"log: {found.log}"])
    if keep:
        print(f"kept: {beyond.keep(of_row, found) if of_row else found.keep()}")
    elif outside or held.given or (classifier is not None and not of_row):
        if of_row is None:  # a row has options of its own
            print("to run with the chosen values:")
            shell_commands([shlex.join(_run_words(found, written, read_by))])
    elif of_row or found.chosen.values != found.recipe:
        again = [*words, "--out", str(out), "--keep"]
        print("to make the chosen values the recipe:")
        shell_commands([shlex.join(again)])


def _run_words(found: Search, written: dict[str, str | None], read_by: dict[str, str]) -> list[str]:
    """The command that runs the chosen candidate on test samples, with what the caller named as it was written."""
    words = ["mnemon", "run", *(word for flag, text in written.items() if text for word in (flag, text))]
    if read_by and found.chosen.classifier:
        words += ["--classifier", read_by.get(found.chosen.classifier, found.chosen.classifier)]
    for name, value in {**found.chosen.values, **found.held.given}.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return [*words, "--stream", found.stream, "--seeds", "15"]


def _print_candidates(found: Search) -> None:
    """Print the best, and the recipe where it was tried."""
    from mnemon.experiments.stats import estimate

    several = len(found.classifiers) > 1
    rows = [
        (
            str(number),
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in c.values.values()),
            *([c.classifier or ""] if several else []),
            "diverged" if c.diverged else str(estimate(c.accuracies)),
            str(len(c.records)),
            ", ".join(
                ["chosen"] * (c is found.chosen) + ["pruned"] * c.pruned + ["the recipe"] * (c.values == found.recipe)
            ),
        )
        for number, c in enumerate(found.candidates, 1)
        if number <= SHOWN or c.values == found.recipe
    ]
    table("", ("", *found.names, *(["read by"] if several else []), "Average Accuracy", "runs", ""), rows)


def _point_to_grid(option: str, value: str) -> str | None:
    """Answer a hyper-parameter given to `tune` as to `run`."""
    name = option.lstrip("-").replace("-", "_")
    if name not in {field.name for field in dataclasses.fields(collect_options())}:
        return None
    return f"tune has no option {option}; name the values to try with --grid {name}={value or 'VALUE,VALUE'}."


COMMANDS = (Command("tune", tune, unknown_option=_point_to_grid),)
