"""`mnemon report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mnemon.cli.command import Command
from mnemon.cli.options import unset
from mnemon.errors import MnemonError


def report(
    folder: Positional[Annotated[Path, arg(metavar="FOLDER", help="a folder with records.jsonl")]],
    out: Annotated[Path | None, unset("where to write the page", "FILE", "FOLDER/report.html")] = None,
    table: Annotated[
        Path | None, unset("write the results as a table too: FILE.md, FILE.tex or FILE.csv", "FILE")
    ] = None,
    against: Annotated[
        str | None,
        unset(
            "in that table: the difference from this method, seed by seed (er, er+ncm, or er:hybrid+ncm with its loss)",
            "METHOD",
        ),
    ] = None,
) -> None:
    """Make one self-contained HTML page from a folder of records: tables, curves, what was forgotten and why."""
    from mnemon.report import write, write_table

    if against is not None and table is None:
        raise MnemonError("--against is for the table: name its file with --table.")
    if table is not None:
        print(write_table(folder, table, against))
    print(write(folder, out))


COMMANDS = (Command("report", report),)
