"""The stream kinds, one file each. Every `Schedule` class in a module of this folder is found by its kind: no registry."""

from __future__ import annotations

from functools import cache

from mnemon import discovery
from mnemon.errors import MnemonError
from mnemon.streams.schedule import Schedule


@cache
def kinds() -> dict[str, type[Schedule]]:
    """All kinds by name, those with tasks first."""
    found = discovery.classes(__name__, Schedule, key="kind")  # type: ignore[type-abstract]
    return dict(sorted(found.items(), key=lambda item: not item[1].has_tasks))


def is_task_free(kind: object) -> bool:
    """Whether a record's kind of stream has no tasks; a shuffled or an unknown stream is not of such a kind."""
    known = kinds().get(str(kind))
    return known is not None and not known.has_tasks


def schedule(name: str) -> Schedule | None:
    """The kind and the parameters in a stream's name, of any dataset or none ("smooth", for arrays); None if unknown."""
    kind, _, rest = name.partition("-")
    known = kinds().get(kind)
    try:
        return known.parse(rest.partition("-")[2]) if known else None
    except MnemonError:
        return None
