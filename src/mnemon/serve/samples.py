"""Samples as the journal holds them: the very numbers that are learned, so that a replay does not depend on any decoder."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.data.layout import channels_first
from mnemon.errors import MnemonError
from mnemon.estimator import OnlineClassifier, rows, values
from mnemon.estimator.frozen import Frozen
from mnemon.files import parsed
from mnemon.learning.labels import Label
from mnemon.learning.learner import Inputs

LONGEST_LABEL = 200  # characters
DTYPES = ("uint8", "float32")


class Samples(NamedTuple):
    """Arrays [n, features] or [n, channels, height, width], or rows whose features have names; and their labels."""

    x: NDArray[Any] | list[dict[str, Any]]
    y: list[Label]

    def part(self, start: int, end: int) -> Samples:
        return Samples(self.x[start:end], self.y[start:end])


class Kind(NamedTuple):
    """What all samples of a model have in common."""

    shape: tuple[int, ...]
    dtype: str
    names: list[Any] | None = None  # of an open table, those of the first sample: others may come later


def encode(samples: Samples) -> bytes:
    """A line of JSON, and the bytes of the array behind it."""
    if isinstance(samples.x, list):
        return json.dumps({"y": samples.y, "rows": samples.x}, separators=(",", ":")).encode()
    head = {"y": samples.y, "dtype": samples.x.dtype.name, "shape": samples.x.shape}
    content = np.ascontiguousarray(samples.x).data.cast("B")
    return b"\n".join([json.dumps(head, separators=(",", ":")).encode(), content])


def decode(payload: bytes) -> Samples:
    head, _, content = payload.partition(b"\n")
    found = parsed(head)
    if "rows" in found:
        return Samples(found["rows"], found["y"])
    shape = found["shape"]
    if found["dtype"] not in DTYPES or math.prod(shape) * np.dtype(found["dtype"]).itemsize != len(content):
        raise MnemonError("an event of the journal holds no samples.")
    return Samples(np.frombuffer(content, found["dtype"]).reshape(shape), found["y"])


def kind_of(samples: Samples) -> Kind:
    if isinstance(samples.x, list):
        names = list(samples.x[0])
        return Kind((len(names),), "float32", names)
    return Kind(tuple(samples.x.shape[1:]), samples.x.dtype.name)


def model_kind(classifier: OnlineClassifier) -> Kind | None:
    """None before anything was learned."""
    model = classifier._model_or_none()
    if model is None:
        return None
    names = model.names if model.table is None else list(model.table.names)
    return Kind(tuple(model.inputs.shape), str(model.inputs.dtype).removeprefix("torch."), names)


def checked(classifier: OnlineClassifier, x: Any, y: Any, kind: Kind | None) -> Samples:
    """Samples that can be learned: all that `partial_fit` would check is checked. `kind` is that of the samples before, of
    which the model need not have learned any yet."""
    labels = values.labels(y)
    for label in set(labels):
        if isinstance(label, str) and not _is_fine(label):
            raise MnemonError(f"a label is text of at most {LONGEST_LABEL} characters.")
    samples = Samples(asked(classifier, x, kind, learned=True), labels)
    if len(samples.x) != len(labels):
        raise MnemonError(f"there are {len(samples.x)} samples and {len(labels)} labels; each sample has one.")
    return samples


def _is_fine(label: str) -> bool:
    try:
        label.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return len(label) <= LONGEST_LABEL


def asked(
    classifier: OnlineClassifier, x: Any, kind: Kind | None, *, learned: bool = False
) -> NDArray[Any] | list[dict[str, Any]]:
    """Samples as they can be learned or predicted; of the kind that came before, where something did. `learned`: the user is
    to be warned of what cannot be learned from them."""
    if isinstance(x, list) and not x:
        raise MnemonError("there must be at least one sample.")
    if classifier.features == "open":
        return _open_rows(classifier, x)
    if isinstance(x, list) and isinstance(x[0], Mapping):
        names = rows.names(x) if kind is None else kind.names
        if kind is not None and names is None:
            raise MnemonError(f"this model takes {_described(kind)}, not features with names.")
        rows.tensor(x, names, None)
        return [dict(row) for row in x]
    if kind is not None and _is_ready(x, kind):
        return x  # type: ignore[no-any-return]
    model = classifier._model_or_none()
    face = copy.copy(classifier)  # scikit-learn notes on it what it saw
    face.__dict__.pop("feature_names_in_", None)  # it would warn that an array has no names
    found: NDArray[Any] = face._samples(x, model, learned=learned).numpy()
    if kind is not None and (tuple(found.shape[1:]), found.dtype.name) != (kind.shape, kind.dtype):
        mine = _described(Kind(tuple(found.shape[1:]), found.dtype.name))
        raise MnemonError(f"these are samples of {mine}, but those before were of {_described(kind)}.")
    return found


def _open_rows(classifier: OnlineClassifier, x: Any) -> list[dict[str, Any]]:
    """Rows of an open table: what they hold must fit what the table knows; which columns they add is seen when they are
    learned."""
    if not isinstance(x, list) or not all(isinstance(row, Mapping) for row in x):
        raise MnemonError('a model with features="open" takes samples with named features, {"name": value}, each.')
    model = classifier._model_or_none()
    copy.copy(classifier)._grown(x, None if model is None else model.table)
    return [dict(row) for row in x]


def _is_ready(x: Any, kind: Kind) -> bool:
    """Vectors just as they are learned, which most bodies of npy hold: nothing is left to be checked."""
    plain = isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype == np.float32 and kind.dtype == "float32"
    return plain and len(x) > 0 and x.shape[1:] == kind.shape and bool(np.isfinite(x).all())


def _described(kind: Kind) -> str:
    size = (
        f"{kind.shape[0]} features" if len(kind.shape) == 1 else "{1} × {2} pixels and {0} channels".format(*kind.shape)
    )
    return f"{size} as {kind.dtype}"


def learn(classifier: OnlineClassifier, samples: list[Samples]) -> None:
    """Learn these as one chunk; all are of one sort, arrays or rows."""
    y = [label for each in samples for label in each.y]
    if isinstance(samples[0].x, list):
        classifier.learn_many([row for each in samples for row in each.x], y)
    else:
        classifier.partial_fit(_marked(np.concatenate([each.x for each in samples])), y)


def forget(classifier: OnlineClassifier, samples: Samples) -> None:
    classifier.forget(samples.x if isinstance(samples.x, list) else _marked(samples.x), samples.y)


def probabilities(
    classifier: OnlineClassifier, frozen: Frozen, names: list[Any] | None, x: NDArray[Any] | list[dict[str, Any]]
) -> NDArray[np.float64]:
    """[n, classes] by a published state; nothing of the model that learns is touched."""
    import torch

    if frozen.table is not None:
        return frozen.probabilities(classifier._read(x, classifier._fitted(), frozen.table, named=True))
    inputs: Inputs = frozen.inputs
    given = rows.tensor(x, names, inputs) if isinstance(x, list) else torch.from_numpy(np.require(x, requirements="W"))
    return frozen.probabilities(given)


def _marked(x: NDArray[Any]) -> Any:
    return channels_first(x) if x.ndim == 4 else x
