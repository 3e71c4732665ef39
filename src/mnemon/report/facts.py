"""What is said about a stream in words: the finding, the protocol, and the commands that make the runs again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Any

from mnemon.errors import MnemonError
from mnemon.metrics import confidence_interval
from mnemon.report import names
from mnemon.report.groups import Group, Section, own_loss

# --- the finding


def headline(section: Section) -> str:
    """The section in a sentence or two; a difference is claimed only where its interval over runs excludes zero."""
    hero, other = _contrast(section.groups)
    where = f"the validation samples of {section.title}" if section.split == "valid" else section.title
    sentence = f"On {where}, {_when(section)}, {_said(other or hero, section)}"
    if other is None:
        return sentence + "."
    sentence += f"; {_said(hero, section)}."
    seeds = sorted(set(hero.seeds) & set(other.seeds))
    if len(seeds) < 2:
        return sentence + " One run each is a hint, not a finding: more seeds give an interval."
    mine, theirs = ({r["seed"]: r["average_accuracy"] for r in g.records} for g in (hero, other))
    mean, half = confidence_interval([mine[s] - theirs[s] for s in seeds])
    if abs(mean) <= half:
        return sentence + f" Over {len(seeds)} paired runs the two cannot be told apart."
    better = "ahead" if mean > 0 else "behind"
    margin = f"{names.fixed(abs(mean), 1)} ± {names.fixed(half, 1)}"
    return sentence + f" Run against run, {_short(hero)} is {margin} points {better}."


def _contrast(groups: list[Group]) -> tuple[Group, Group | None]:
    """What to compare: the paper's method with plain replay where both are there, else the two best."""
    online = [g for g in groups if g.way[0] not in names.UPPER_BOUNDS] or groups
    ranked = sorted(online, key=lambda g: -_mean(g))
    hero = next((g for g in ranked if g.way == ("hybrid", "hybrid", "ncm")), ranked[0])
    rest = [g for g in ranked if g.way != hero.way]
    for way in (("er", "ce", "softmax"), ("fine-tune", "ce", "softmax")):
        plain = next((g for g in rest if g.way == way), None)
        if plain is not None:
            return hero, plain
    return hero, rest[0] if rest else None


def _mean(group: Group) -> float:
    found = group.estimate("average_accuracy")
    return found.mean if found else 0.0


def _when(section: Section) -> str:
    kind = section.protocol.get("kind")
    if kind == "split":
        return f"after {names.word(section.tasks)} task{'' if section.tasks == 1 else 's'}"
    return "at the end of the stream" if kind == "smooth" else "with the samples shuffled"


def _said(group: Group, section: Section) -> str:
    forgets = group.estimate("average_forgetting")
    verb = "reaches" if forgets is None else "keeps"
    said = f"{_long(group)} {verb} {names.fixed(_mean(group), 1)} %"
    if forgets is not None:
        said += f" and forgets {names.fixed(forgets.mean, 1)} points"
    return said


def _long(group: Group) -> str:
    """ER with a softmax classifier; the paper's hybrid with NCM."""
    if group.way == ("hybrid", "hybrid", "ncm"):
        return "the paper’s " + group.name.replace(" + NCM", " with NCM")
    return group.name.replace(" + softmax", " with a softmax classifier").replace(" + ", " with ")


def _short(group: Group) -> str:
    return "the hybrid" if group.way == ("hybrid", "hybrid", "ncm") else group.name


# --- the protocol


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
        ("Seeds", _seeds(section.groups)),
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
    if stream.get("kind") == "smooth":
        return "Smooth: no tasks, classes come and go"
    if stream.get("kind") == "iid":
        return "i.i.d.: shuffled"
    tasks = stream.get("tasks", [])
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


def _seeds(groups: list[Group]) -> str:
    by_seeds = dict.fromkeys(names.ranges(g.seeds) for g in groups)
    return "; ".join(by_seeds)


def _device(record: dict[str, Any]) -> str:
    threads = record.get("threads")
    device = names.text(record.get("device", ""))
    return f"{device}, {names.plural(threads, 'thread')}" if device == "cpu" and threads else device


def _versions(every: list[dict[str, Any]]) -> str:
    return _join(", ".join(f"{k} {v}" for k, v in r.get("versions", {}).items()) for r in every)


# --- the commands


def commands(section: Section) -> list[str]:
    """`mnemon run …` for every training in the section; options at their default are not named."""
    trainings: dict[str, list[Group]] = {}
    for group in section.groups:
        first = group.first
        if first.get("data", {}).get("name") == "arrays":
            continue  # made from arrays in memory, which no command knows
        same = [first["method"], first["loss"], first["options"], first.get("order"), _where(first), group.seeds]
        trainings.setdefault(json.dumps(same, sort_keys=True), []).append(group)
    return [_command(groups) for groups in trainings.values()]


def _command(groups: list[Group]) -> str:
    first = groups[0].first
    words = ["mnemon", "run", "--method", first["method"], "--stream", first["stream"]]
    if first["loss"] != own_loss(first["method"]):
        words += ["--loss", first["loss"]]
    own, usual = _defaults(first)
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
    seeds = groups[0].seeds
    words += ["--seeds", str(len(seeds)) if seeds == list(range(len(seeds))) else _listed(seeds)]
    if where := _where(first):
        words += ["--device", where]
    return shlex.join(str(word) for word in words)


def _listed(seeds: list[int]) -> str:
    """3-5,8; a single seed as a range of one, since a bare number is a count."""
    return f"{seeds[0]}-{seeds[0]}" if len(seeds) == 1 else names.ranges(seeds, "-")


def _where(record: dict[str, Any]) -> str:
    """cpu or cuda: the same seed gives the same bytes only on the same device."""
    device = record.get("device")
    return "" if not device else "cpu" if device == "cpu" else "cuda"


def _defaults(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The classifier and the options `mnemon run` would take by itself; nothing is known of a method that is gone."""
    from mnemon.experiments.spec import Spec

    try:
        choice = Spec(record["method"], record["stream"], loss=record["loss"]).choice()
    except MnemonError:
        return "", {}
    return choice.classifiers[0].name, choice.options()
