"""From a folder to the state of its model: the newest snapshot that can be used, and the journal from there on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier
from mnemon.serve import snapshots
from mnemon.serve.database import damaged
from mnemon.serve.journal import Journal
from mnemon.serve.snapshots import Place, Snapshot
from mnemon.serve.state import Retraction, State, first_shape, refusals, retractions


class OutOfReach(MnemonError):
    """What is asked for lies before all that is still there."""


def restore(
    folder: Path, journal: Journal, fresh: Callable[[], OnlineClassifier], device: Any
) -> tuple[State, Snapshot]:
    """The state after the last event, and the snapshot it was made from.

    A network that has learned a sample cannot unlearn it: it is made from a snapshot before all samples that were
    retracted since. Samples may come meanwhile: those that were there when this began are in the state, of later ones the
    first few may be.
    """
    position, seq = journal.position, journal.seq
    taken_back = retractions(journal)
    snapshot = _usable(folder, journal, fresh, device, taken_back)
    place = snapshot.place
    if place.seq > seq:
        raise damaged(journal.path, f"it ends at event {seq}, and a snapshot holds event {place.seq}")
    shape = first_shape(journal, taken_back) if place.number == 0 else ()
    state = State(snapshot.classifier, place.learned, refused=refusals(journal), retracted=set(), shape=shape)
    # What the snapshot was made without, and what a network must never learn: by the shape of each, since "auto" may have
    # become another learner once all was taken back. The others are subtracted when the journal comes to them.
    state.retracted |= {
        each.position for each in taken_back if each.seq <= place.seq or not state.subtracts_for(each.shape)
    }
    state.follow(journal, place.seq)
    if state.acknowledged < position:
        raise damaged(journal.path, f"the samples {state.acknowledged + 1:,} and after are not in it")
    return state, snapshot


def check_reach(
    folder: Path, journal: Journal, fresh: Callable[[], OnlineClassifier], device: Any, wanted: Retraction
) -> None:
    """Refuse to retract samples that every snapshot has learned already."""
    _usable(folder, journal, fresh, device, [*retractions(journal), wanted._replace(seq=journal.seq + 1)])


def _usable(
    folder: Path,
    journal: Journal,
    fresh: Callable[[], OnlineClassifier],
    device: Any,
    taken_back: list[Retraction],
) -> Snapshot:
    for snapshot in snapshots.readable(folder, device):
        if not snapshot.noted:
            snapshot = snapshot._replace(place=snapshot.place._replace(learned=journal.start))
        if _follows(snapshot, taken_back):
            return snapshot
        if not snapshot.ours:  # an older one lacks what was learned elsewhere
            break
    else:
        beginning = Snapshot(Place(0, 0, 0), fresh(), [], [], ours=True)
        if journal.start == 0 and journal.reach == 0 and _follows(beginning, taken_back):
            return beginning
    raise OutOfReach(f"no snapshot of {folder} is old enough, or whole, to be brought up to date by its journal.")


def _follows(snapshot: Snapshot, taken_back: list[Retraction]) -> bool:
    """Whether the journal leads from this snapshot to the state without what was retracted."""
    place = snapshot.place
    state = State(snapshot.classifier, place.learned, refused={}, retracted=set())
    return state.subtracts or not any(each.seq > place.seq and state.is_learned(each) for each in taken_back)
