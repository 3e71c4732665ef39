"""The finding of a stream in a sentence or two."""

from __future__ import annotations

from mnemon.render import names
from mnemon.report.groups import Group, Section
from mnemon.report.pairs import by_way, difference, standing

PAPERS = ("hybrid", "hybrid", "ncm")  # its own way


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
    compared = difference(hero, other)
    if compared is None:
        return sentence + " They share no seed, so no run can be set against another."
    (mean, half), pairs = compared
    if half is None:
        alone = "They share one seed only," if max(len(hero.records), len(other.records)) > 1 else "One run each is"
        return sentence + f" {alone} a hint, not a finding: more seeds give an interval."
    if abs(mean) <= half:
        return sentence + f" Over {pairs} paired runs the two cannot be told apart."
    better = "ahead" if mean > 0 else "behind"
    margin = f"{names.fixed(abs(mean), 1)}\u00a0±\u00a0{names.fixed(half, 1)}"
    return sentence + f" Run against run, {_short(hero)} is {margin} points {better}."


def _contrast(groups: list[Group]) -> tuple[Group, Group | None]:
    """What to compare: the paper's method with plain replay where both are there, else the two best ways; each as it was meant
    (`standing`), on the same stream and with the same memory."""
    online = [g for g in groups if g.way[0] not in names.UPPER_BOUNDS] or groups
    ways = by_way(online)
    ranked = sorted((found for way in ways.values() if (found := standing(way))), key=lambda g: -g.accuracy)
    hero = next((g for g in ranked if g.way == PAPERS), ranked[0])
    rest = {g.way: other for g in ranked if g.way != hero.way and (other := standing(ways[g.way], beside=hero))}
    for way in (("er", "ce", "softmax"), ("fine-tune", "ce", "softmax")):
        if way in rest:
            return hero, rest[way]
    return hero, next(iter(rest.values()), None)


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
    if group.way == PAPERS:
        return "the paper’s " + group.name.replace(" + NCM", " with NCM")
    return group.name.replace(" + softmax", " with a softmax classifier").replace(" + ", " with ")


def _short(group: Group) -> str:
    return "the hybrid" if group.way == PAPERS else group.name
