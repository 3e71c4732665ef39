"""Classes that are chosen by name, one file each, with options in one canonical form: `blend:sharpness=4`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from mnemon.errors import MnemonError, check_known
from mnemon.learning import options

N = TypeVar("N", bound="Named")

PLAIN = re.compile(r"[A-Za-z0-9_.-]+")  # safe in file names and shells, and without our separators


@dataclass(frozen=True)
class Named:
    """A classifier or a backbone: what a name leads to, with its options as fields.

    A class has the plain `name`. The `name` of an instance states its options too, if they are not at their defaults, sorted
    and each value written in one way, so that equal names mean equal things; records and run names hold it.
    """

    name: ClassVar[str]
    doc: ClassVar[str] = "-"  # one line for `mnemon list`

    def __post_init__(self) -> None:
        options.check(self)
        stated = [
            f":{name}={_text(name, getattr(self, name))}"
            for name, field in sorted(options.fields(self).items())
            if getattr(self, name) != field.default
        ]
        object.__setattr__(self, "name", type(self).name + "".join(stated))


def parse(text: Any, known: Mapping[str, type[N]], kind: str) -> N:
    """Make what `text` names, `NAME` or `NAME:OPTION=VALUE:…`, out of those that are known."""
    if not isinstance(text, str):  # a saved model may hold anything
        raise MnemonError(f"a {kind} is chosen by its name, not by {text!r}.")
    name, *words = text.split(":")
    check_known(kind, name, known)
    fields = options.fields(known[name])
    given: dict[str, str] = {}
    for word in words:
        option, equals, value = word.partition("=")
        option = option.replace("-", "_")
        if not (option and equals and value):
            raise MnemonError(f"options of a {kind} are written as {name}:option=value:option=value, not {text!r}.")
        if option not in fields:
            others = [other for other, holder in known.items() if option in options.fields(holder)]
            of = f" (it is an option of {', '.join(others)})" if others else ""
            raise MnemonError(
                f"the {kind} {name} has no option {option!r}{of}; it has {', '.join(sorted(fields)) or 'none'}."
            )
        if option in given:
            raise MnemonError(f"{option} is given twice in {text!r}.")
        given[option] = value
    try:
        return known[name](**{option: options.parse(fields[option], value) for option, value in given.items()})
    except MnemonError as error:
        raise MnemonError(f"the {kind} {name}: {error}") from None


def in_file_name(name: str) -> str:
    """The name as a part of a file name: Windows allows no colon."""
    return name.replace(":", ",")


def _text(option: str, value: Any) -> str:
    """10, 0.5, 1e-05, word: what `parse` reads as the same value."""
    text = repr(value).removesuffix(".0").replace("e+", "e") if isinstance(value, float) else str(value)
    if not PLAIN.fullmatch(text):
        raise MnemonError(f"{option} may hold letters, digits and . _ - signs, not {text!r}.")
    return text
