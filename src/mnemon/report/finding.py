"""The finding of a stream in a sentence or two."""

from __future__ import annotations

from mnemon.metrics import confidence_interval
from mnemon.report import names
from mnemon.report.groups import Group, Section


def headline(section: Section) -> str:
    """The section in a sentence or two; a difference is claimed only where its interval over runs excludes zero."""
    hero, other = _contrast(section.groups)
    where = names.stream(section.stream, with_tasks=False)
    if section.split == "valid":
        where = f"the validation samples of {where}"
    sentence = f"On {where}, {_when(section)}, {_said(other or hero)}"
    if other is None:
        return sentence + "."
    sentence += f"; {_said(hero)}."
    seeds = sorted(set(hero.seeds) & set(other.seeds))
    if len(seeds) < 2:
        return sentence + " One run each is a hint, not a finding: more seeds give an interval."
    mine, theirs = ({r["seed"]: r["average_accuracy"] for r in g.records} for g in (hero, other))
    mean, half = confidence_interval([mine[s] - theirs[s] for s in seeds])
    if abs(mean) <= half:
        return sentence + f" Over {len(seeds)} paired runs the two cannot be told apart."
    better = "ahead" if mean > 0 else "behind"
    margin = f"{names.fixed(abs(mean), 1)}\u00a0±\u00a0{names.fixed(half, 1)}"
    return sentence + f" Run against run, {_short(hero)} is {margin} points {better}."


def _contrast(groups: list[Group]) -> tuple[Group, Group | None]:
    """What to compare: the paper's method with plain replay where both are there, else the two best."""
    online = [g for g in groups if g.way[0] not in names.UPPER_BOUNDS] or groups
    ranked = sorted(online, key=lambda g: -g.accuracy)
    hero = next((g for g in ranked if g.way == ("hybrid", "hybrid", "ncm")), ranked[0])
    rest = [g for g in ranked if g.way != hero.way]
    for way in (("er", "ce", "softmax"), ("fine-tune", "ce", "softmax")):
        plain = next((g for g in rest if g.way == way), None)
        if plain is not None:
            return hero, plain
    return hero, rest[0] if rest else None


def _when(section: Section) -> str:
    kind = section.protocol.get("kind")
    if kind == "split":
        return f"after {names.word(section.tasks)} task{'' if section.tasks == 1 else 's'}"
    return "at the end of the stream" if kind == "smooth" else "with the samples shuffled"


def _said(group: Group) -> str:
    forgets = group.estimate("average_forgetting")
    verb = "reaches" if forgets is None else "keeps"
    said = f"{_long(group)} {verb} {names.fixed(group.accuracy, 1)}\u00a0%"
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
