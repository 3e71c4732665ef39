"""The protocol of a stream, as terms and definitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mnemon.render import names
from mnemon.report.groups import Group, Section
from mnemon.streams.kinds import is_task_free, kinds


def protocol(section: Section) -> list[tuple[str, str]]:
    """Term and definition, in reading order; a term nothing is known about is left out."""
    stream = section.protocol
    replaying = [g for g in section.groups if g.first["protocol"].get("memory") != "none"]
    every = [r for g in section.groups for r in g.records]
    data = [r.get("data", {}) for r in every]
    terms = [
        ("Dataset", _join(f"{names.text(d['name'])}, sha256 {d['checksum'][:12]}" for d in data if d.get("checksum"))),
        ("Stream", _stream(stream, section)),
        ("Samples", _samples(stream)),
        ("Tested on", "validation samples" if section.split == "valid" else f"{names.text(section.split)} samples"),
        ("New batch", _join(g.first["options"].get("batch_size") for g in section.groups)),
        ("Replayed with it", _join(g.first["options"].get("replay_size") for g in replaying)),
        ("Memory", _memory(replaying)),
        ("Passes", _join(g.first["protocol"].get("passes") for g in section.groups)),
        ("Augmentation", _join(g.first["protocol"].get("augmentation") for g in section.groups)),
        ("Network", _network(section.groups)),
        ("Seeds", "; ".join(dict.fromkeys(names.ranges(g.seeds) for g in section.groups))),
        ("Device", _join(_device(r) for r in every)),
        ("Versions", _versions(every)),
    ]
    return [(term, value) for term, value in terms if value]


def settings(group: Group) -> str:
    """The hyper-parameters of a group that the protocol does not state for all."""
    stated = ("batch_size", "replay_size", "memory_size")
    return ", ".join(names.option(k, v) for k, v in group.first["options"].items() if k not in stated)


def _join(values: Iterable[Any]) -> str:
    """Different values once each, in order of appearance."""
    return " / ".join(dict.fromkeys(names.text(v) for v in values if v not in (None, "")))


def _stream(stream: dict[str, Any], section: Section) -> str:
    if is_task_free(stream.get("kind")):
        return f"{kinds()[stream['kind']].title}: no tasks, classes come and go"
    if stream.get("kind") == "iid":
        return "i.i.d.: shuffled"
    tasks = stream.get("tasks", [])
    if not tasks:
        return ""
    orders = {g.first.get("order", "natural") for g in section.groups}
    sizes = sorted({len(task) for task in tasks})
    per = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    said = f"{names.plural(len(tasks), 'task')} of {per} {'class' if sizes == [1] else 'classes'}"
    classes = " · ".join(" ".join(names.text(label) for label in task) for task in tasks)
    if "random" in orders:
        return said + (", shuffled for each seed" if orders == {"random"} else ", natural or shuffled for each seed")
    return f"{said}: {classes}" if len(classes) <= 60 else f"{said}, in sorted order"


def _samples(stream: dict[str, Any]) -> str:
    counts = [count for _, count in stream.get("class_counts", [])]
    if not counts or "samples" not in stream:
        return ""
    low, high = min(counts), max(counts)
    each = names.thousands(low) if low == high else f"{names.thousands(low)} to {names.thousands(high)}"
    return f"{names.thousands(stream['samples'])} in the stream, {each} of each class"


def _memory(groups: list[Group]) -> str:
    sizes = _join(f"{names.thousands(g.first['memory_size'])} samples" for g in groups if g.first.get("memory_size"))
    rules = _join(g.first["protocol"].get("memory") for g in groups)
    return f"{sizes}, {rules}" if sizes and rules else sizes


def _network(groups: list[Group]) -> str:
    sizes = sorted({p for g in groups if (p := g.first["protocol"].get("parameters"))})
    said = _join(g.first["protocol"].get("backbone") for g in groups)
    if not sizes:
        return said
    few, most = names.thousands(sizes[0]), names.thousands(sizes[-1])
    return f"{said}, {few} parameters" if few == most else f"{said}, {few} to {most} parameters"


def _device(record: dict[str, Any]) -> str:
    threads = record.get("threads")
    device = names.text(record.get("device", ""))
    return f"{device}, {names.plural(threads, 'thread')}" if device == "cpu" and threads else device


def _versions(every: Sequence[dict[str, Any]]) -> str:
    return _join(", ".join(f"{k} {v}" for k, v in r.get("versions", {}).items()) for r in every)
