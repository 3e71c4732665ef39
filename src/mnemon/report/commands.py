"""The commands that make the runs of a stream again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from mnemon.experiments import records
from mnemon.report import names
from mnemon.report.groups import Group, Section, defaults, own_loss


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
    words = ["mnemon", "run", "--method", first["method"], "--stream", first["stream"]]
    if first["loss"] != own_loss(first["method"]):
        words += ["--loss", first["loss"]]
    own, usual = defaults(first)
    classifiers = [g.first["classifier"] for g in groups]
    if classifiers != [own]:
        words += ["--classifier", ",".join(classifiers)]
    for name, value in first["options"].items():
        if name not in usual or usual[name] != value:
            words += [f"--{name.replace('_', '-')}", f"{value}"]
    if first.get("order", "natural") != "natural":
        words += ["--order", first["order"]]
    if first.get("split", "test") != "test":
        words += ["--split", first["split"]]
    words += ["--seeds", names.seeds(groups[0].seeds)]
    if first.get("backbone"):
        words += ["--backbone", first["backbone"]]
    words += _where(first)
    return shlex.join(str(word) for word in words)


def _where(record: dict[str, Any]) -> list[str]:
    """The same seed gives the same bytes only on the same device, computed in the same way."""
    if not record.get("device"):
        return []
    words = ["--device", "cpu" if record["device"] == "cpu" else "cuda"]
    for name, value in records.precision(record).items():
        words += [f"--{name}", value]
    return words + (["--deterministic"] if record.get("deterministic") else [])
