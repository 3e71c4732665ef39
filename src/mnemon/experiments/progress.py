"""What a person sees while runs are under way: a bar over runs, one over steps, the accuracy so far, a line per run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from mnemon import __version__
from mnemon.experiments.events import Evaluated, Event, Finished, Message, RunDiverged, Started, Stepped, Waiting
from mnemon.experiments.record import Record


class Speed(ProgressColumn):
    """Steps per second, of the lines that count steps."""

    def render(self, task: Task) -> Text:
        speed = task.speed if task.fields.get("timed") else None
        return Text("" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s")


def bars(console: Console) -> Bars:
    """Lines with a bar, a count, a note and the time left; nothing where there is no terminal."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Speed(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=console.quiet or not console.is_terminal,
        transient=True,
        refresh_per_second=8,
    )


class Progress:
    """Bars on a terminal; elsewhere one line for each finished run. All of it on stderr, so stdout stays the result.

    Several threads may update it.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self.bars = bars(self.console)
        self.lock = threading.Lock()
        self.runs: TaskID | None = None
        self.steps: TaskID | None = None

    @contextlib.contextmanager
    def over(self, runs: int) -> Iterator[None]:
        """Within, show the events of so many runs."""
        self.number = runs
        self.ended: set[int] = set()  # numbers of the runs that are done
        self.made = 0  # steps made in runs that ended
        self.lengths: dict[int, int] = {}  # steps of each run that was started
        self.places: dict[int, int] = {}  # of those under way
        self.waited = False
        with self.bars:
            self.runs = self.bars.add_task("runs", total=runs, note="")
            self.steps = self.bars.add_task("steps", total=None, note="", visible=False, timed=True)
            yield

    def update(self, event: Event) -> None:
        """Show what has happened."""
        match event:
            case Started(number, name, position, total):
                with self.lock:
                    self.lengths[number], self.places[number] = total, position
                    if self.steps is not None:
                        # The others are as long, as far as is known.
                        expected = sum(self.lengths.values()) * self.number // len(self.lengths)
                        self.bars.update(self.steps, total=expected, visible=True)
                if position:
                    self.say(f"{name}: going on at step {position} of {total}")
            case Stepped(number, position):
                if self.steps is not None and not self.bars.disable:
                    with self.lock:
                        self.places[number] = position
                        self.bars.update(self.steps, completed=self.made + sum(self.places.values()))
            case Evaluated(_, accuracy):
                if self.steps is not None:
                    self.bars.update(self.steps, note="accuracy so far: " + _means(accuracy))
            case Finished(number, records, already):
                self.finished(number, records, already)
            case RunDiverged(number, title, why):
                if self._end(number):
                    self.say(f"{title}, {why}")
            case Waiting(jobs):
                if not self.waited:
                    self.say(f"waiting for another process, which works on what is left in this folder ({jobs})")
                self.waited = True
            case Message(text):
                self.say(text)

    def finished(self, number: int, records: list[Record], already: bool) -> None:
        """Say what came out of a run."""
        for r in records if self._end(number) else ():
            took = f"{sum(r['seconds'].values()):.1f} s"
            if already:
                version = r["versions"]["mnemon"]
                took = "already there" if version == __version__ else f"already there, made by mnemon {version}"
            forgetting = "" if r["average_forgetting"] is None else f", forgetting {r['average_forgetting']:.2f}"
            self.say(f"{self.named(r)}, seed {r['seed']}: accuracy {r['average_accuracy']:.2f}{forgetting} ({took})")

    def named(self, r: Record) -> str:
        return f"{r['method']} + {r['classifier']} on {r['stream']}"

    def _end(self, number: int) -> bool:
        """Count a run that ended, once; False if that was done already."""
        with self.lock:
            if number in self.ended:
                return False
            self.ended.add(number)
            self.places.pop(number, None)
            if number not in self.lengths:
                self.number -= 1  # found, not made
            self.made += self.lengths.get(number, 0)
            if self.runs is not None:
                self.bars.advance(self.runs)
        return True

    def say(self, line: str) -> None:
        self.console.print(line, markup=False)


def _means(accuracy: dict[str, list[float | None]]) -> str:
    """For each classifier the mean over the tasks learned so far."""
    notes = []
    for name, values in accuracy.items():
        known = [v for v in values if v is not None]
        notes.append(f"{name} {sum(known) / len(known):.1f} %")
    return ", ".join(notes)
