"""Progress on stderr: bars on a terminal, one line a stage elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], object]  # call with the bytes or images done since the last call


class Report:
    """Tells a person how far a download or an import is."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    @contextmanager
    def stage(self, text: str, total: int | None = None, *, unit: str = "images") -> Iterator[Advance]:
        """One stage of the work. `total` and the amounts passed on are counts of `unit`: "images" or "bytes"."""
        if self.quiet:
            yield lambda amount: None
        elif not sys.stderr.isatty():
            print(text, file=sys.stderr)
            yield lambda amount: None
        else:
            # rich is needed only here, and this module is imported with the package.
            from rich import progress
            from rich.console import Console

            amount = progress.DownloadColumn() if unit == "bytes" else progress.MofNCompleteColumn()
            columns = (progress.TextColumn("{task.description}", markup=False), progress.BarColumn(), amount)
            with progress.Progress(*columns, progress.TimeRemainingColumn(), console=Console(stderr=True)) as bar:
                task = bar.add_task(text, total=total)
                yield lambda done: bar.advance(task, done)

    def say(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr)


SILENT = Report(quiet=True)
