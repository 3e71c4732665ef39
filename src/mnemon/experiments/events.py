"""What happens to jobs, as values that cross processes: one JSON line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, get_args

from mnemon.experiments.record import Record


class Started(NamedTuple):
    """A run begins, or resumes after `position` of its `total` steps."""

    number: int
    name: str
    position: int
    total: int


class Stepped(NamedTuple):
    """A run has made so many steps."""

    number: int
    position: int


class Evaluated(NamedTuple):
    """A run was evaluated: by classifier, the accuracy on each task; None for tasks to come."""

    number: int
    accuracy: dict[str, list[float | None]]


class Saved(NamedTuple):
    """A checkpoint of a run was written to this folder."""

    number: int
    folder: str


class Finished(NamedTuple):
    """The records of a run are on the disk; `already`: before this command."""

    number: int
    records: list[Record]
    already: bool = False


class RunDiverged(NamedTuple):
    """A loss was not finite: the run has no record."""

    number: int
    title: str
    why: str


class Waiting(NamedTuple):
    """Other processes have locked all jobs that are left, so many."""

    jobs: int


class Message(NamedTuple):
    """A message that another process logged."""

    logger: str
    level: int
    text: str


Event = Started | Stepped | Evaluated | Saved | Finished | RunDiverged | Waiting | Message
Emit = Callable[[Event], None]
_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}


def to_json(event: Event) -> str:
    """One line, without its end."""
    return json.dumps([type(event).__name__, event._asdict()])


def from_json(line: str) -> Event:
    """Raises ValueError for a line that is no event, such as one that a kill cut short."""
    try:
        kind, fields = json.loads(line)
        if kind == Finished.__name__:
            fields["records"] = [Record(record) for record in fields["records"]]
        return _TYPES[kind](**fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an event: {line!r}") from error
