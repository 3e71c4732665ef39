"""Trackers: where `mnemon log` exports records to, one small file each. Every Tracker class in a module of this folder is found
by its name: no registry.

tracker      what a tracker is
contents     what is exported of a record: curves, results, hyper-parameters, a figure
figure       the accuracy matrix as a picture
exporting    records of a folder → tracker, once or as they come
tensorboard  event files of TensorBoard
"""

from __future__ import annotations

from functools import cache

from mnemon import discovery
from mnemon.errors import MnemonError, check_known
from mnemon.trackers.tracker import Tracker


@cache
def trackers() -> dict[str, type[Tracker]]:
    """All trackers by name, in alphabetical order."""
    return discovery.classes(__name__, Tracker)  # type: ignore[type-abstract]


def open_tracker(written: str) -> Tracker:
    """The tracker that NAME:PLACE means."""
    name, _, place = written.partition(":")
    check_known("tracker", name, trackers())
    found = trackers()[name]
    if not place:
        raise MnemonError(f"where to? write --to {name}:{found.place_is}.")
    return found(place)
