"""What a tracker is: a place that shows runs and compares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from mnemon.trackers.contents import Contents


class Tracker(ABC):
    """Takes what is exported of records, each under the name of its run, once.

    A class is found by its `name`; it is made with what stands behind the colon of NAME:PLACE. It imports what it needs there,
    and says in one sentence what to install where that is missing.
    """

    name: ClassVar[str]
    place_is: ClassVar[str]  # what PLACE is, in capitals: DIR, URI, PROJECT

    @abstractmethod
    def __init__(self, place: str) -> None: ...

    @abstractmethod
    def digest(self, name: str) -> str | None:
        """Of the record that was exported under this name; None if there is none. It is asked for every record each time."""

    @abstractmethod
    def write(self, contents: Contents) -> None:
        """Write all of it, or nothing."""

    @abstractmethod
    def look(self) -> str:
        """How to see it, in a line for a person: a command or an address."""
