"""The commands that make the runs of a stream again."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

from mnemon.experiments import records
from mnemon.render import names
from mnemon.report.groups import Group, Section, spec


def commands(section: Section) -> list[str]:
    """`mnemon run …` for every training in the section; options at their default are not named."""
    trainings: dict[str, list[Group]] = {}
    for group in section.groups:
        first = group.first
        if first.get("own") or first.get("data", {}).get("name") == "arrays":
            continue  # made with what no command knows: arrays, a network or a method in memory
        network = first.get("backbone"), first["protocol"].get("backbone")
        same = [
            first["method"],
            first["loss"],
            first["options"],
            first.get("order"),
            network,
            _where(first),
            group.seeds,
        ]
        trainings.setdefault(json.dumps(same, sort_keys=True), []).append(group)
    return [_command(groups) for groups in trainings.values()]


def _command(groups: list[Group]) -> str:
    first = groups[0].first
    classifiers = tuple(group.first["classifier"] for group in groups)
    words = replace(spec(first), classifiers=classifiers).command()
    return shlex.join([*words, "--seeds", names.seeds(groups[0].seeds), *_where(first)])


def _where(record: dict[str, Any]) -> list[str]:
    """The same seed gives the same bytes only on the same device, computed in the same way."""
    if not record.get("device"):
        return []
    words = ["--device", "cpu" if record["device"] == "cpu" else "cuda"]
    for name, value in records.precision(record).items():
        words += [f"--{name}", value]
    return words + (["--deterministic"] if record.get("deterministic") else [])
