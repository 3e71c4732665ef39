"""Records of a folder into a tracker: those it does not have yet, once or as they come."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mnemon.experiments.record import Record
from mnemon.experiments.store import ResultFolder
from mnemon.runtime.progress import SILENT, Progress
from mnemon.trackers.contents import Contents
from mnemon.trackers.tracker import Tracker

LOOK = 0.5  # seconds between two looks at a folder that may grow

logger = logging.getLogger(__name__)


@dataclass
class Exported:
    """How many records were written, were there before, and were there as another record of the same name."""

    written: int = 0
    known: int = 0
    changed: int = 0


def export(folder: Path, tracker: Tracker, stop: Callable[[], object], progress: Progress = SILENT) -> Exported:
    """Write the records that the tracker does not have, until `stop()`."""
    found = ResultFolder(folder).read_some()
    done = Exported()
    with progress.stage(f"exporting {len(found):,} records", len(found), unit="records") as bar:
        _write(found, tracker, stop, done, lambda contents: bar.advance(1))
    return done


def follow(folder: Path, tracker: Tracker, stop: Callable[[], object]) -> Exported:
    """Write the records that the tracker does not have, and those to come, until `stop()`. The folder need not be there yet."""
    results, done = ResultFolder(folder), Exported()
    handled: set[tuple[str, str]] = set()
    seen = None
    while not stop():
        # Looked at before it is read: what is appended in between is found at the next look.
        if (now := (_stamp(results.records), _stamp(results.archive))) != seen:
            seen = now
            new = [record for record in results.read() if record.identity not in handled]
            _write(new, tracker, stop, done, lambda contents: handled.add(contents.record.identity), said=True)
        else:
            time.sleep(LOOK)
    return done


def _write(
    records: Iterable[Record],
    tracker: Tracker,
    stop: Callable[[], object],
    done: Exported,
    each: Callable[[Contents], object],
    *,
    said: bool = False,
) -> None:
    """Write one after the other: where one fails, those before it are exported."""
    for contents in map(Contents, records):
        if stop():
            return
        before = tracker.digest(contents.name)
        if before is None:
            tracker.write(contents)
            done.written += 1
            if said:
                logger.info("exported %s", contents.name)
        elif before == contents.digest:
            done.known += 1
        else:
            logger.warning("%s was exported before from another record, which is kept.", contents.name)
            done.changed += 1
        each(contents)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Another one when a file has changed."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
