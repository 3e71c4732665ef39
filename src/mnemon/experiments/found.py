"""Finished runs found by what was asked for, whichever device made them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mnemon.experiments import protocol, records
from mnemon.experiments.records import Record
from mnemon.experiments.spec import Spec


class Found:
    """Records, to be asked for those of a spec.

    A run's name is a digest of all that changes training, the device among it; here any device will do, so the name is made
    again for the record's own. Runs in another precision than the default one are another experiment.
    """

    def __init__(self, there: Iterable[Record]) -> None:
        self._by: dict[tuple[str, ...], list[Record]] = {}
        for record in there:
            if not records.precision(record):
                place = (record["method"], record["stream"], record["loss"], record["classifier"])
                self._by.setdefault(place, []).append(record)

    def like(self, spec: Spec, classifier: str, checksum: str | None = None) -> dict[int, Record]:
        """Those made as `spec` would be made now, by seed, on the dataset with this checksum (any, where None). Of two with one
        seed the later one."""
        choice = spec.choice()
        stream = str(protocol.parse(spec.stream))
        return {
            r["seed"]: r
            for r in self._by.get((spec.method, stream, choice.objective.name, classifier), ())
            if checksum in (None, r["data"]["checksum"])
            and r["run"]
            == replace(spec, seed=r["seed"]).key(choice, stream, r["data"]["checksum"], records.computed(r))
        }

    def of(self, spec: Spec, checksum: str | None = None) -> Record | None:
        """The record of the spec's first classifier."""
        classifier = spec.choice().classifiers[0].name
        return self.like(spec, classifier, checksum).get(spec.seed)
