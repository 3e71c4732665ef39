"""How far long work is, on stderr: bars on a terminal, elsewhere a line per stage, nothing when quiet."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from rich import progress as rich_progress


class Bar(NamedTuple):
    """What changes a bar; several threads may."""

    advance: Callable[[int], object]  # by so many
    update: Callable[..., object]  # completed, total, visible, note


class AddBar(Protocol):
    def __call__(self, text: str, total: int | None = None, *, unit: str = "", visible: bool = True) -> Bar:
        """Show another bar. What has a unit is counted per second too; `unit` "bytes" is shown as such."""


class Progress:
    """Bars, or lines in their place. Messages are no progress: they are logged."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    def line(self, text: str) -> None:
        """Print a line where bars cannot be shown."""
        if not self.quiet and not _terminal():
            print(text, file=sys.stderr)

    @contextlib.contextmanager
    def stage(self, text: str, total: int | None = None, *, unit: str = "images") -> Iterator[Bar]:
        """Within, show one stage of the work: its line, or a bar that stays."""
        self.line(text)
        with self.bars(keep=True) as add:
            yield add(text, total, unit=unit)

    @contextlib.contextmanager
    def bars(self, *, keep: bool = False) -> Iterator[AddBar]:
        """Within, bars can be added; at the end they are erased, or kept."""
        if self.quiet or not _terminal():
            yield lambda text, total=None, *, unit="", visible=True: Bar(lambda amount: None, lambda **changes: None)
            return
        with _display(keep) as display:

            def add(text: str, total: int | None = None, *, unit: str = "", visible: bool = True) -> Bar:
                task = display.add_task(text, total=total, visible=visible, unit=unit, note="")
                return Bar(partial(display.advance, task), partial(display.update, task))

            yield add


SILENT = Progress(quiet=True)


def _terminal() -> bool:
    # While bars are shown rich has put a stream of its own in the place of stderr; before 15.0 that one is never a terminal.
    return bool(getattr(sys.stderr, "rich_proxied_file", sys.stderr).isatty())


def _display(keep: bool) -> rich_progress.Progress:
    """Lines with a bar, a count, a note and the time left."""
    # rich is needed only here, and this module is imported with the package.
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    count, size = progress.MofNCompleteColumn(), progress.DownloadColumn()

    class Amount(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            if task.fields["unit"] == "bytes":
                return size.render(task)
            speed = task.speed if task.fields["unit"] else None
            return count.render(task).append("" if speed is None else f" {speed:,.{int(speed < 10)}f}/s")

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=24),
        Amount(),
        progress.TextColumn("{task.fields[note]}", markup=False),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True, highlight=False, soft_wrap=True),  # lines above the bars are not cut
        transient=not keep,
        refresh_per_second=8,
    )
