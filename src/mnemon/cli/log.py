"""`mnemon log`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.options import Quiet, flag


def log(
    folder: Positional[Annotated[Path, arg(metavar="FOLDER", help="a folder with records.jsonl")]],
    to: Annotated[str, arg(metavar="TRACKER:PLACE", help="where to export to: tensorboard:DIR")],
    follow: Annotated[bool, flag("continue as runs finish, until the command is stopped")] = False,
    quiet: Quiet = False,
) -> None:
    """Export records to a tracker of experiments: curves, results, hyper-parameters, the accuracy matrix.

    A record is exported once, under the name of its run: the same command exports what has come since. Each tracker needs its
    extra: pip install 'mnemon[tensorboard]'.
    """
    from mnemon.runtime.progress import Progress
    from mnemon.runtime.signals import Stopped, watched
    from mnemon.trackers import exporting, open_tracker

    tracker = open_tracker(to)
    with watched() as stop:
        if follow:
            done = exporting.follow(folder, tracker, stop)
        else:
            done = exporting.export(folder, tracker, stop, Progress(quiet=quiet))
        changed = f", {done.changed:,} there as another record" if done.changed else ""
        print(f"{done.written:,} records exported to {to}, {done.known:,} there before{changed}")
        if not quiet:
            print(f"look: {tracker.look()}")
        if stop():
            raise Stopped(stop())


COMMANDS = (Command("log", log),)
