"""What a person sees while `mnemon fit` runs: a bar with the running accuracy; without a terminal a line at each save."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """All of it on stderr, so stdout stays the result."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
            transient=True,
            refresh_per_second=8,
        )
        self.task: TaskID | None = None
        self.note = ""

    @contextlib.contextmanager
    def over(self, files: int) -> Iterator[None]:
        with self.bars:
            self.task = self.bars.add_task("images", total=files, note="")
            yield

    def advance(self) -> None:
        if self.task is not None:
            self.bars.advance(self.task)

    def accuracy(self, percent: float | None) -> None:
        self.note = "" if percent is None else f"test-then-train accuracy {percent:.1f} %"
        if self.task is not None:
            self.bars.update(self.task, note=self.note)

    def saved(self, samples: int) -> None:
        if self.bars.disable:
            self.say(f"saved: {samples:,} images learned" + (f", {self.note}" if self.note else ""))

    def say(self, line: str) -> None:
        self.console.print(line, markup=False)
