"""Finished runs found by what was asked for, whichever device made them."""

from __future__ import annotations

from collections.abc import Iterable

from mnemon.experiments import protocol, records
from mnemon.experiments.records import Record
from mnemon.experiments.spec import Spec


class Found:
    """Records, to be asked for the one of a spec. A run's name holds its device; here any device will do."""

    def __init__(self, there: Iterable[Record]) -> None:
        self._by: dict[tuple[str, str, int], list[Record]] = {}
        for record in there:
            if not records.precision(record):  # in bf16 it would be another experiment
                self._by.setdefault((record["method"], record["stream"], record["seed"]), []).append(record)

    def of(self, spec: Spec, checksum: str | None = None) -> Record | None:
        """The record of the spec's first classifier, made on the dataset with this checksum (any, where None)."""
        choice = spec.choice()
        stream = str(protocol.parse(spec.stream))
        for record in self._by.get((spec.method, stream, spec.seed), ()):
            data = record["data"]["checksum"]
            if (
                record["classifier"] == choice.classifiers[0].name
                and checksum in (None, data)
                and record["run"] == spec.key(choice, stream, data, records.computed(record))
            ):
                return record
        return None
