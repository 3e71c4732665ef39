"""The commands that make the runs of a stream again."""

from __future__ import annotations

import shlex
from dataclasses import replace

from mnemon.experiments.record import Record
from mnemon.render import names
from mnemon.report.groups import Group, Section, spec


def commands(section: Section) -> list[str]:
    """`mnemon run …` for every training in the section; options at their default are not named."""
    trainings: dict[tuple[str, ...], list[Group]] = {}
    for group in section.groups:
        first = group.first
        if first.get("own") or first.get("data", {}).get("name") == "arrays":
            continue  # made with what no command knows: arrays, a network or a method in memory
        trainings.setdefault(_words(group, ()), []).append(group)
    return [
        shlex.join(_words(groups[0], tuple(g.first["classifier"] for g in groups))) for groups in trainings.values()
    ]


def _words(group: Group, classifiers: tuple[str, ...]) -> tuple[str, ...]:
    """The command; without classifiers it is the same for all groups of a training."""
    words = replace(spec(group.first), classifiers=classifiers).command()
    outside = group.first.get("plugins", {})
    for what in outside.keys() & {"method", "loss"}:
        if f"--{what}" in words and "source" in outside[what]:
            words[words.index(f"--{what}") + 1] = outside[what]["source"]
    return (*words, "--seeds", names.seeds(group.seeds), *_where(group.first))


def _where(record: Record) -> list[str]:
    """The same seed gives the same bytes only on the same device, computed in the same way."""
    if not record.get("device"):
        return []
    words = ["--device", "cpu" if record["device"] == "cpu" else "cuda"]
    for name, value in record.precision.items():
        words += [f"--{name}", value]
    return words + (["--deterministic"] if record.get("deterministic") else [])
