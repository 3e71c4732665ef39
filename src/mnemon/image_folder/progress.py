"""What a person sees while `mnemon fit` runs: a bar with the running accuracy; without a terminal a line at each save."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import TaskID

from mnemon.experiments.progress import bars


class Progress:
    """All of it on stderr, so stdout stays the result."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.bars = bars(self.console)
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
