"""Texts as labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mnemon.learning.labels import Label, number


def labels(texts: Iterable[str], known: Sequence[Label], *, numbers: bool) -> list[Label]:
    """The labels that texts stand for: one that is known as a number is that number. Those that are not known are texts, or
    with `numbers` the whole numbers they spell (`7`, not `07`)."""
    by_text = {str(label): label for label in sorted(known, key=lambda label: isinstance(label, str))}
    return [by_text.get(text, number(text) if numbers else text) for text in texts]
