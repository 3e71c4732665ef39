"""Events of runs as a bar over runs, one over steps with the accuracy so far, and messages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mnemon import __version__
from mnemon.experiments.events import Evaluated, Event, Finished, Message, RunDiverged, Started, Stepped, Waiting
from mnemon.experiments.record import Record
from mnemon.runtime.progress import AddBar

logger = logging.getLogger(__name__)


def run_title(r: Record) -> str:
    return f"{r.display_name} on {r['stream']}"


class RunProgress:
    """The progress of so many runs; `title` names a finished one. Several threads may update it."""

    def __init__(self, runs: int, add: AddBar, title: Callable[[Record], str] = run_title) -> None:
        self.number, self.title = runs, title
        self.lock = threading.Lock()
        self.ended: set[int] = set()  # numbers of the runs that are done
        self.lengths: dict[int, int] = {}  # steps of each run that was started
        self.places: dict[int, int] = {}  # steps made of each
        self.made = 0  # steps, of all runs
        self.waited = False
        self.runs = add("runs", runs)
        self.steps = add("steps", unit="steps", visible=False)

    def update(self, event: Event) -> None:
        """Show what has happened."""
        match event:
            case Started(number, name, position, total):
                with self.lock:
                    self.lengths[number] = total
                    self._move(number, position)
                    # The others are as long, as far as is known.
                    expected = sum(self.lengths.values()) * self.number // len(self.lengths)
                    self.steps.update(total=expected, visible=True)
                if position:
                    logger.info(f"{name}: going on at step {position} of {total}")
            case Stepped(number, position):
                with self.lock:
                    self._move(number, position)
            case Evaluated(_, accuracy):
                self.steps.update(note="accuracy so far: " + _means(accuracy))
            case Finished(number, records, already):
                if self._end(number):
                    for record in records:
                        logger.info(self._result(record, already))
            case RunDiverged(number, title, why):
                if self._end(number):
                    logger.warning(f"{title}, {why}")
            case Waiting(jobs):
                if not self.waited:
                    logger.info(f"waiting for another process, which works on what is left in this folder ({jobs})")
                self.waited = True
            case Message(name, level, text):
                logging.getLogger(name).log(level, text)

    def _move(self, number: int, position: int) -> None:
        self.made += position - self.places.get(number, 0)
        self.places[number] = position
        self.steps.update(completed=self.made)

    def _end(self, number: int) -> bool:
        """Count a run that ended, once; False if that was done already."""
        with self.lock:
            if number in self.ended:
                return False
            self.ended.add(number)
            if number in self.lengths:
                self._move(number, self.lengths[number])
            else:
                self.number -= 1  # found, not made
            self.runs.advance(1)
        return True

    def _result(self, r: Record, already: bool) -> str:
        took = f"{sum(r['seconds'].values()):.1f} s"
        if already:
            version = r["versions"]["mnemon"]
            took = "already there" if version == __version__ else f"already there, made by mnemon {version}"
        forgetting = "" if r["average_forgetting"] is None else f", forgetting {r['average_forgetting']:.2f}"
        return f"{self.title(r)}, seed {r['seed']}: accuracy {r['average_accuracy']:.2f}{forgetting} ({took})"


def _means(accuracy: dict[str, list[float | None]]) -> str:
    """For each classifier the mean over the tasks learned so far."""
    notes = []
    for name, values in accuracy.items():
        known = [v for v in values if v is not None]
        notes.append(f"{name} {sum(known) / len(known):.1f} %")
    return ", ".join(notes)
