"""One finished run read by one classifier: what a line of records.jsonl holds (docs/records.md has it field by field)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from mnemon.errors import MnemonError
from mnemon.learning import plugins

# What a field holds where it is there. Older records lack some, and newer versions may add others, which are kept.
TEXT = ("run", "method", "stream", "loss", "classifier", "split", "order", "device", "precision")
WHOLE = ("seed", "threads", "at_once", "memory_size", "state_bytes")
WHOLE_OR_NULL = ("multiplications",)
NUMBER = ("average_accuracy",)
NUMBER_OR_NULL = (
    "average_forgetting",
    "anytime_accuracy",
    "learning_accuracy",
    "area_under_curve",
    "backward_transfer",
    "min_accuracy",
    "prequential_accuracy",
    "probe_accuracy",
)
MAPPING = ("options", "protocol", "seconds", "data", "versions", "plugins")
REQUIRED = ("run", "classifier")
KINDS: tuple[tuple[tuple[str, ...], str, Callable[[Any], bool]], ...] = (
    (TEXT, "text", lambda value: isinstance(value, str)),
    (WHOLE, "a whole number", lambda value: type(value) is int),
    (WHOLE_OR_NULL, "a whole number or null", lambda value: value is None or type(value) is int),
    (NUMBER, "a number", lambda value: _is_number(value)),
    (NUMBER_OR_NULL, "a number or null", lambda value: value is None or _is_number(value)),
    (MAPPING, "an object", lambda value: isinstance(value, dict)),
    (("seconds",), "an object of numbers", lambda value: all(map(_is_number, value.values()))),
    (("plugins",), "an object of objects of text", lambda value: all(map(_is_texts, value.values()))),
    (("data", "versions"), "an object of text", lambda value: _is_texts(value)),
    (("protocol",), "an object of lists, numbers and text, as in docs/records.md", lambda value: _is_protocol(value)),
    (("accuracy_matrix",), "rows of numbers, all of one length", lambda value: _is_matrix(value)),
)

# What makes a run another experiment, beside its options.
PROTOCOL = ("passes", "augmentation", "memory", "forward", "backbone")


class Variant(NamedTuple):
    """How a run learns and classifies."""

    method: str
    loss: str
    classifier: str

    @property
    def own_loss(self) -> bool:
        """Whether the loss is the method's own; False for a method that this version does not have."""
        known = plugins.known("method").get(self.method)
        return known is not None and known.default_objective == self.loss


class Record(dict[str, Any]):
    """A record: the fields as they were written, and what follows from them."""

    def __missing__(self, field: str) -> Any:
        raise MissingField(f"the record of {self.get('run')} has no {field!r}; repair or remove its line.")

    def __or__(self, other: Mapping[str, Any]) -> Record:  # type: ignore[override]
        return Record({**self, **other})

    def check(self) -> None:
        """Refuse a field of another kind than it should have."""
        for field in REQUIRED:
            self[field]
        for fields, kind, is_kind in KINDS:
            for field in fields:
                if field in self and not _holds(is_kind, self[field]):
                    raise MnemonError(
                        f"the record of {self['run']} has no proper {field!r}: it must be {kind}, "
                        f"not {_shortened(self[field])}; repair or remove its line."
                    )

    @property
    def identity(self) -> tuple[str, str]:
        """The training and the classifier: no two records of a folder share both."""
        return self["run"], self["classifier"]

    @property
    def variant(self) -> Variant:
        return Variant(self["method"], self["loss"], self["classifier"])

    @property
    def display_name(self) -> str:
        """METHOD [LOSS] + CLASSIFIER; the loss only where it is not the method's own."""
        loss = "" if self.variant.own_loss else f" {self['loss']}"
        precision = "".join(f" ({name})" for name in self.precision.values())
        return f"{self['method']}{loss} + {self['classifier']}{precision}"

    @property
    def precision(self) -> dict[str, str]:
        """{"precision": …} where a GPU did not compute in its default precision (TF32), else empty."""
        name = self.get("precision", "tf32")
        return {} if name == "tf32" or self.get("device", "cpu") == "cpu" else {"precision": name}

    @property
    def computed(self) -> dict[str, Any]:
        """Where and how the run was computed, as its name holds it (`Engine.identity`)."""
        deterministic = {"deterministic": True} if self.get("deterministic") else {}
        return {"device": self["device"], **self.precision, **deterministic}

    @property
    def settings(self) -> dict[str, Any]:
        """What makes two runs of a variant different experiments, apart from stream and split."""
        found = dict(self["options"])
        found |= {name: self["protocol"][name] for name in PROTOCOL if name in self["protocol"]}
        found |= {"order": self.get("order", "natural"), "data": self["data"].get("checksum", "")[:8]}
        if self["data"].get("name") == "arrays":  # the name of a stream object says no more than its kind
            found |= {"tasks": len(self["protocol"].get("tasks", ())), "samples": self["protocol"].get("samples")}
        found |= {f"{what} code": about.get("digest", "")[:8] for what, about in self.get("plugins", {}).items()}
        return found | self.precision

    @property
    def experiment(self) -> str:
        """Equal for the runs that differ in nothing but their seed."""
        same = [*self.variant, self["stream"], self.get("split", "test"), self.settings]
        return json.dumps(same, sort_keys=True)


class MissingField(MnemonError, KeyError):
    """A record lacks a field that is needed."""

    __str__ = ValueError.__str__  # a KeyError would show the sentence in quotes


def mean_seconds(runs: Iterable[Mapping[str, Any]]) -> float | None:
    """Of training and testing, over the runs that state it; None where no run does."""
    found = [sum(run["seconds"].values()) for run in runs if run.get("seconds")]
    return sum(found) / len(found) if found else None


def _holds(is_kind: Callable[[Any], bool], value: Any) -> bool:
    try:
        return is_kind(value)
    except (TypeError, ValueError):  # of something inside of it
        return False


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_protocol(value: dict[str, Any]) -> bool:
    """Of what is read from it; any of these may be missing."""
    classes, counts = [*value.get("tasks", ()), *value.get("tested", ())], value.get("class_counts", ())
    numbers = [value.get(name, 0) for name in ("samples", "parameters", "passes")]
    numbers += [*value.get("boundaries", ()), *value.get("evaluated", ()), *(count for _, count in counts)]
    return all(isinstance(labels, list) for labels in classes) and all(map(_is_number, numbers))


def _is_number(value: Any) -> bool:
    return type(value) is int or (isinstance(value, float) and math.isfinite(value))


def _is_matrix(value: Any) -> bool:
    """Rows of numbers and nulls, at least one, none empty."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(row, list) and row and len(row) == len(value[0]) for row in value)
        and all(entry is None or _is_number(entry) for row in value for entry in row)
    )


def _shortened(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 60 else written[:59] + "…"
