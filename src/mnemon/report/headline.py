"""The result of a stream in a sentence or two."""

from __future__ import annotations

from mnemon.experiments.record import Variant
from mnemon.render import names
from mnemon.report.groups import Group, Section
from mnemon.report.pairs import by_variant, difference, standing
from mnemon.streams.kinds import is_task_free, kinds

REPLAY = (Variant("er", "ce", "softmax"), Variant("fine-tune", "ce", "softmax"))  # what the first is compared with


def headline(section: Section) -> str:
    """The section in a sentence or two; a difference is claimed only where its interval over runs excludes zero."""
    first, other = _contrast(section.groups)
    where = names.stream(section.stream, with_tasks=False)
    if section.split == "valid":
        where = f"the validation samples of {where}"
    sentence = f"On {where}, {_when(section)}, {_said(other or first)}"
    if other is None:
        return sentence + "."
    sentence += f"; {_said(first)}."
    compared = difference(first, other)
    if compared is None:
        return sentence + " They share no seed, so no run can be set against another."
    if compared.half is None:
        alone = "They share one seed only," if max(len(first.records), len(other.records)) > 1 else "One run each is"
        return sentence + f" {alone} a hint, not a finding: more seeds give an interval."
    if compared.sign == 0:
        return sentence + f" Over {compared.n} paired runs the two do not differ significantly."
    better = "ahead" if compared.sign > 0 else "behind"
    margin = compared._replace(mean=abs(compared.mean)).text(1).replace(" ", "\u00a0")
    return sentence + f" Run against run, {_short(first)} is {margin} points {better}."


def _contrast(groups: list[Group]) -> tuple[Group, Group | None]:
    """What to compare: the paper's method with plain replay where both are there, else the two best variants; each as
    `standing` chooses it, on the same stream and with the same memory."""
    online = [g for g in groups if g.variant.method not in names.UPPER_BOUNDS] or groups
    variants = by_variant(online)
    ranked = sorted((found for of in variants.values() if (found := standing(of))), key=lambda g: -g.accuracy)
    first = next((g for g in ranked if g.variant == names.THE_PAPERS), ranked[0])
    others = {v: other for g in ranked if (v := g.variant) != first.variant and (other := standing(variants[v], first))}
    plain = (others[variant] for variant in REPLAY if variant in others)
    return first, next(plain, None) or next(iter(others.values()), None)


def _when(section: Section) -> str:
    kind = section.protocol.get("kind")
    if kind in kinds() and not is_task_free(kind):
        return f"after {names.word(section.tasks)} task{'' if section.tasks == 1 else 's'}"
    return "at the end of the stream" if is_task_free(kind) else "with the samples shuffled"


def _said(group: Group) -> str:
    forgets = group.estimate("average_forgetting")
    verb = "reaches" if forgets is None else "keeps"
    said = f"{_long(group)} {verb} {names.fixed(group.accuracy, 1)}\u00a0%"
    if forgets is not None:
        said += f" and forgets {names.fixed(forgets.mean, 1)} points"
    return said


def _long(group: Group) -> str:
    """ER with a softmax classifier; the paper's hybrid with NCM."""
    if group.variant == names.THE_PAPERS:
        return "the paper’s " + group.name.replace(" + NCM", " with NCM")
    return group.name.replace(" + softmax", " with a softmax classifier").replace(" + ", " with ")


def _short(group: Group) -> str:
    return "the hybrid" if group.variant == names.THE_PAPERS else group.name
