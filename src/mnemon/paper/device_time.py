"""What the runs behind Tables 1, 2 and 4 took, from their records, without miniImageNet.

A run measures its own seconds. Where runs shared a device inside one process the record says how many (`at_once`), and
each run's share of the device is its seconds divided by that. A record that says nothing, or one, may still have had
other processes beside it: its seconds are then more than its share of the device, and are counted apart.
"""

from __future__ import annotations

from typing import Any

from mnemon.experiments.record import Record
from mnemon.paper import cells
from mnemon.paper.plan import training
from mnemon.paper.results import Results
from mnemon.render import names

TABLES = (1, 2, 4)


def sentence(results: Results) -> str:
    """How many of the runs are there, and what they took, device by device."""
    wanted, there = runs(results)
    said = [
        f"Tables 1, 2 and 4 without miniImageNet, rows beyond the paper included, are {names.plural(wanted, 'run')}; "
        f"{names.thousands(len(there))} of them are there."
    ]
    by_device: dict[str, list[Record]] = {}
    for record in there:
        by_device.setdefault(str(record["device"]), []).append(record)
    for device, mine in by_device.items():
        said.append(f"**{device}**: {_on_cpu(mine) if device == 'cpu' else _on_gpu(mine)}.")
    return " ".join([*said, "The searches for hyper-parameters are not counted."]) + "\n"


def runs(results: Results) -> tuple[int, list[Record]]:
    """How many trainings stand behind the cells, and a record of each that was made: one training serves several cells."""
    wanted: dict[tuple[Any, ...], Record | None] = {}
    for cell in (cell for table in TABLES for cell in cells.cells(table) if "mini_imagenet" not in cell.stream):
        found, same = results.of(cell).records, training(cell.spec())
        for seed in results.seeds:
            wanted[same, seed] = wanted.get((same, seed)) or found.get(seed)
    return len(wanted), [record for record in wanted.values() if record is not None]


def _own(record: Record) -> float:
    return float(record["seconds"]["train"] + record["seconds"]["evaluate"])


def _on_cpu(mine: list[Record]) -> str:
    return (
        f"{names.plural(len(mine), 'run')}, {_minutes(sum(map(_own, mine)))} by their own clocks, training and testing"
    )


def _on_gpu(mine: list[Record]) -> str:
    shared = [record for record in mine if (record.get("at_once") or 1) > 1]
    rest = [record for record in mine if (record.get("at_once") or 1) == 1]
    parts = []
    if shared:
        took = _minutes(sum(_own(record) / record["at_once"] for record in shared))
        parts.append(
            f"{names.plural(len(shared), 'run')} that shared the device took {took} of it, each run's seconds of training and "
            "testing divided by the most runs that were under way beside it, itself included"
        )
    if rest:
        took = _minutes(sum(map(_own, rest)))
        parts.append(
            f"{names.plural(len(rest), 'run')} that name none beside them took {took} by their own clocks, which is more than "
            "their share of the device wherever other processes ran beside them"
        )
    return "; ".join(parts)


def _minutes(seconds: float) -> str:
    return f"{names.fixed(seconds / 60, 1)} minutes"
