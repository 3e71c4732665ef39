"""Finished runs found by what was asked for, whichever device made them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mnemon.experiments import protocol
from mnemon.experiments.record import Record
from mnemon.experiments.spec import Spec


class RecordIndex:
    """Finds the records of a spec.

    A run's name is a digest of all that changes training, the device included. Here any device counts, so the name is
    made again for the record's own device. Runs in another precision than the default one are another experiment.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        self._by: dict[tuple[str, ...], list[Record]] = {}
        for record in records:
            if not record.precision:
                self._by.setdefault((record["stream"], *record.variant), []).append(record)

    def like(self, spec: Spec, classifier: str, checksum: str | None = None) -> dict[int, Record]:
        """The records of runs made as `spec` would be made now, by seed, on the dataset with this checksum (None: any). Of two
        with one seed the later one counts."""
        choice = spec.choice()
        stream, options = str(protocol.parse(spec.stream)), choice.options()
        # The name decides; but a search leaves thousands of records, and to make a name takes longer than to compare options.
        return {
            r["seed"]: r
            for r in self._by.get((stream, spec.method, choice.objective.name, classifier), ())
            if r.get("options") == options
            and checksum in (None, r["data"]["checksum"])
            and r["run"] == replace(spec, seed=r["seed"]).key(choice, stream, r["data"]["checksum"], r.computed)
        }
