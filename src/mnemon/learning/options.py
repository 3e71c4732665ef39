"""Hyper-parameters as dataclass fields that carry their one-line help and their range."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mnemon.errors import MnemonError, unknown


def option(
    default: Any,
    doc: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field with its help text; `above` and `below` (exclusive), `least` and `most` bound it, `choices` lists all values."""
    return dataclasses.field(
        default=default,
        metadata={"doc": doc, "above": above, "least": least, "most": most, "below": below, "choices": choices},
    )


def check(holder: Any) -> None:
    """Every option of `holder` has its type and range, or one sentence."""
    for field in dataclasses.fields(holder):
        value: Any = getattr(holder, field.name)
        kind = type(field.default)
        if isinstance(value, np.generic):
            value = value.item()
        if kind is float and type(value) is int:
            value = float(value)
        object.__setattr__(holder, field.name, value)  # plain Python values; frozen for everyone else
        given = type(value)
        if given is not kind:
            raise MnemonError(f"{field.name} must be of type {kind.__name__}, not {value!r}.")
        if kind is float and not math.isfinite(value):
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
