"""`mnemon reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.options import Device, On, Quiet, flag, unset
from mnemon.cli.output import shell_commands, table
from mnemon.cli.seeds import seeds as read_seeds
from mnemon.errors import MnemonError, check_known


def reproduce(
    targets: Positional[
        Annotated[
            tuple[str, ...], unset("table1 … table7, fig1 … fig5, ranking, sensitivity, beyond, or all", "TARGET …")
        ]
    ],
    out: Annotated[Path, arg(help="folder of the records; tables/ and figures/ are written there")] = Path("results"),
    seeds: Annotated[
        str, arg(metavar="SEEDS", help="how many seeds a cell is to have (0 up to that), or which: 0-4")
    ] = "15",
    methods: Annotated[
        str | None, unset("run only these methods, separated by commas", "NAMES", "all of the target")
    ] = None,
    streams: Annotated[
        str | None, unset("run only on these streams, separated by commas", "NAMES", "all of the target")
    ] = None,
    device: Device = "auto",
    on: On = None,
    dry_run: Annotated[bool, flag("say which records exist and what would be run; run and write nothing")] = False,
    records_only: Annotated[bool, flag("write from the records that are there; run nothing")] = False,
    fill: Annotated[
        tuple[Path, ...],
        unset(
            "documents whose parts between <!-- mnemon: NAME --> and <!-- /mnemon --> are written from the records "
            "(NAME: table1 … table7, claims, figures, ranking, ranking-figure, device-time, sensitivity, searches, "
            "beyond, beyond-figures, beyond-ablation, beyond-shrinkage, beyond-searches, split-mnist …, "
            "method-er …)",
            "FILE …",
        ),
    ] = (),
    steps: Annotated[int | None, unset("fig4: steps timed for each method", "N", "400; on a CPU 20")] = None,
    quiet: Quiet = False,
) -> None:
    """Make the paper's tables and figures: runs what is missing, takes the rest from the records.

    A record counts for a cell only if it was made with the hyper-parameters the cell has today. Finished runs are never
    repeated, an interrupted command continues where it stopped, and several processes can share a folder. What cannot be run
    here is printed as "not run". Writes OUT/tables/*.md and *.tex, OUT/figures/*.png and *.svg.

      mnemon reproduce table1 --methods hybrid,er --streams split-mnist
      mnemon reproduce all --dry-run
    """
    from mnemon.experiments.pools import pools
    from mnemon.paper import reproduce as paper
    from mnemon.runtime.progress import Progress

    if dry_run and records_only:
        raise MnemonError("--dry-run writes nothing and --records-only only writes: choose one of them.")
    of_runs = {"methods": methods, "streams": streams, "on": on, "steps": steps}
    if records_only and (idle := [name for name, value in of_runs.items() if value is not None]):
        raise MnemonError(f"--records-only runs nothing, so --{idle[0]} says nothing: leave one of them out.")
    if on is not None:
        check_known("pool", on, pools())
    if steps is not None and steps < 1:
        raise MnemonError(f"steps is a number of steps, 1 or more, not {steps}.")
    work = paper.Reproduction(list(targets), out, read_seeds(seeds), _names(methods), _names(streams))
    paper.check(fill)
    if not records_only:
        plans = work.plans(paper.device_name(device, on))
        rows = [(plan.target, f"{plan.there} of {plan.of} {plan.what}", plan.to_make) for plan in plans]
        table(f"in {out}", ("target", "there", "to make"), rows)
        if dry_run:
            shell_commands(paper.commands(plans, out))
            return
        work.make(device, pool=on, steps=steps, progress=Progress(quiet=quiet))
    for line in [*work.write(), *paper.fill(fill, out)]:
        print(line)


def _names(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(text.split(","))


COMMANDS = (Command("reproduce", reproduce),)
