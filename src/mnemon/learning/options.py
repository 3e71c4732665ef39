"""Hyper-parameters as dataclass fields that carry their one-line help and their range."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from mnemon.errors import MnemonError, unknown

Field = dataclasses.Field[Any]


def option(
    default: Any,
    doc: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
    since: str | None = None,
    switch: bool = False,
) -> Any:
    """Declare a hyper-parameter with its help text, which takes the type of its default.

    `above` and `below` (exclusive), `least` and `most` bound a number, `choices` lists all values of a word, and `words` are
    values a number may have instead ("auto"). `since` is the version an option came with after runs without it had been
    recorded: at its default it is not stated in names and records, so that those runs keep their names. `switch`: 0 turns
    off what the number is for, and a run without it holds other tensors than a run with it.
    """
    about: dict[str, Any] = {"doc": doc, "above": above, "least": least, "most": most, "below": below}
    about |= {"choices": choices, "words": words, "since": since, "switch": switch}
    return dataclasses.field(default=default, metadata=about)


def fields(holder: Any) -> dict[str, Field]:
    """The options of a method, loss, classifier or backbone (a class or an instance) by name."""
    return {field.name: field for field in dataclasses.fields(holder)}


def omitted_at_default(holder: Any) -> dict[str, Any]:
    """The defaults of the options that are not stated at them."""
    return {name: field.default for name, field in fields(holder).items() if field.metadata.get("since")}


def same_in_a_stack(declared: Mapping[str, Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal in runs that are stacked: everything but the numbers that have no part in the shapes (η, γ …); of a
    switch, whether it is on."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if not isinstance(value, float):
            found[name] = value
        elif declared[name].metadata.get("switch"):
            found[name] = value != 0
    return found


def kind(field: Field) -> type[Any]:
    """The type of an option's values; where it also takes words, of its numbers."""
    return float if field.default in _words(field) else type(field.default)


def argument(field: Field) -> tuple[Any, str]:
    """The type of an option on the command line, and how its value is shown in the help."""
    words = _words(field)
    shown = "|".join(field.metadata.get("choices") or [kind(field).__name__.upper(), *words])
    return (kind(field) | Literal[words] if words else kind(field)), shown


def parse(field: Field, text: str) -> Any:
    """Read a value that was typed."""
    if text in _words(field):
        return text
    try:
        return kind(field)(text)
    except ValueError:
        raise _wrong_type(field, text) from None


def check(holder: Any) -> None:
    """Check the type and range of every option of `holder`, and make the values plain Python numbers and text."""
    for field in dataclasses.fields(holder):
        object.__setattr__(holder, field.name, _checked(field, getattr(holder, field.name)))  # frozen otherwise


def _checked(field: Field, value: Any) -> Any:
    wanted = kind(field)
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is str and value in _words(field):
        return value
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted:
        raise _wrong_type(field, value)
    if wanted is float and not math.isfinite(value):
        raise MnemonError(f"{field.name} must be a finite number, not {value}.")
    choices = field.metadata.get("choices")
    if choices and value not in choices:
        raise unknown(field.name, value, choices)
    above, below = field.metadata.get("above"), field.metadata.get("below")
    least, most = field.metadata.get("least"), field.metadata.get("most")
    if above is not None and not value > above:
        raise MnemonError(f"{field.name} must be above {above}, not {value}.")
    if least is not None and not value >= least:
        raise MnemonError(f"{field.name} must be at least {least}, not {value}.")
    if below is not None and not value < below:
        raise MnemonError(f"{field.name} must be below {below}, not {value}.")
    if most is not None and not value <= most:
        raise MnemonError(f"{field.name} must be at most {most}, not {value}.")
    return value


def _words(field: Field) -> tuple[str, ...]:
    words: tuple[str, ...] = field.metadata.get("words", ())
    return words


def _wrong_type(field: Field, value: Any) -> MnemonError:
    words = "".join(f" or {word!r}" for word in _words(field))
    return MnemonError(f"{field.name} must be of type {kind(field).__name__}{words}, not {value!r}.")
