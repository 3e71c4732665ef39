"""The words in which a grid or a space is written: OPTION=VALUES, each option once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mnemon.errors import MnemonError
from mnemon.learning import options
from mnemon.learning.build import Choice
from mnemon.learning.options import Field

FIXED = ("batch_size", "replay_size", "memory_size")  # the protocol's, not for choosing
PROTOCOL = (*FIXED, "backbone", "order")  # those too that are no options of a method


class Word(NamedTuple):
    """An option and what is written behind its equals sign."""

    text: str  # as it was written
    name: str
    field: Field
    values: str


def read_words(words: Sequence[str], choice: Choice, kind: str, form: str) -> Iterator[Word]:
    """Read the words of a grid or a space (`kind`), which are written as `form` says."""
    fields = choice.fields()
    seen = set()
    for word in words:
        name, equals, values = word.partition("=")
        name = name.replace("-", "_")
        if not equals or not values:
            raise MnemonError(f"a {kind} is written as {form}, not {word!r}.")
        if name in PROTOCOL:
            flag = "--" + name.replace("_", "-")
            raise MnemonError(
                f"{name} belongs to the protocol; it is not chosen on validation. To search at another one, give {flag}."
            )
        if name not in fields:
            known = ", ".join(sorted(n for n in fields if n not in FIXED))
            raise MnemonError(
                f"{choice.method.name} with the loss {choice.objective.name} has no option {name!r} to tune; it has {known}."
            )
        if name in seen:
            raise MnemonError(f"{name} is in the {kind} twice.")
        seen.add(name)
        yield Word(word, name, fields[name], values)


def parse_values(word: Word) -> tuple[Any, ...]:
    """0.05,0.1 → (0.05, 0.1), each once, in the option's own type."""
    return tuple(dict.fromkeys(options.parse(word.field, text) for text in word.values.split(",")))
