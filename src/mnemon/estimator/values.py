"""X and y of any kind as tensors and labels; everything is checked before it is learned (`data/arrays.py` for numbers)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.data import arrays
from mnemon.errors import MnemonError
from mnemon.learning.labels import Label, LabelTable, number
from mnemon.runtime.warn import warn

Numbers = NDArray[np.integer[Any]]

MOST_VALUES = 2**24  # numbers in one sample
STEPS = 8  # of float32, which a feature must span to tell something
DARKEST = 32  # largest value of uint8 images that are not dark, but something else
LOOKED_AT = 256  # samples that are enough to find that it does, mostly


def check_dimensions(a: NDArray[Any]) -> None:
    """Refuse a single value or a single row; the words are those scikit-learn's users know."""
    if a.ndim == 0:
        raise MnemonError(
            f"Expected 2D array, got scalar array instead: X must hold samples, and is one {type(a.item()).__name__}."
        )
    if a.ndim == 1 and a.size > 0:
        raise MnemonError(
            f"Expected 2D array, got 1D array instead: X has the shape {a.shape}. Reshape your data: one sample is X[None], "
            "one feature of many samples X[:, None]."
        )


def tensor(a: NDArray[Any], *, last: bool | None = None, learned: tuple[int, ...] | None = None) -> Tensor:
    """Samples [n, …] as the learner holds them; `last` and `learned` as in `arrays.tensor`.

    A vector of uint8 is a row of a table like any other: another chunk of that table may come as ints or floats.
    """
    if a.ndim not in (2, 3, 4):
        raise MnemonError(
            f"X must be (n, features), (n, H, W), (n, H, W, channels) or (n, channels, H, W), not an array of shape {a.shape}."
        )
    if a.size and a[0].size > MOST_VALUES:
        raise MnemonError(f"a sample of {a[0].size:,} values is too large: at most {MOST_VALUES:,} can be learned.")
    if a.dtype == np.uint8 and a.ndim == 2:
        a = a.astype(np.float32)
    x = arrays.tensor(a, "X", last=last, usual=True, learned=learned)
    return x[:, None] if x.ndim == 3 else x  # one channel


def kind(shape: tuple[int, ...], dtype: torch.dtype) -> str:
    """What samples are, in words."""
    channels = f"{shape[0]} channel{'s' * (shape[0] != 1)}"
    what = f"{shape[0]} features" if len(shape) == 1 else f"{shape[1]} × {shape[2]} pixels and {channels}"
    return f"{what} as {str(dtype).removeprefix('torch.')}"


def warn_of_lost_digits(a: NDArray[Any], x: Tensor, names: Sequence[Any] | None) -> None:
    """Say it if a feature varies, but by less than float32 can hold beside its size: seconds since 1970, long ids.

    No more than a word: over the whole stream the feature may vary enough. `x` is `a` as float32, in which such a feature
    spans few steps too: most chunks are done with that look.
    """
    if a.ndim != 2 or len(a) == 1 or a.dtype == np.float32:
        return
    # Values that are further apart than that in a part of the chunk are so in all of it.
    if _spans(x[:LOOKED_AT]) or _spans(x):
        return
    most, least = a.max(0).astype(np.float64), a.min(0).astype(np.float64)
    size, spread = np.maximum(abs(most), abs(least)), most - least
    # What float64 itself rounds off is no variation: a constant that was computed in two ways.
    lost = np.flatnonzero(
        (spread > 16 * np.finfo(np.float64).eps * size) & (spread < STEPS * np.finfo(np.float32).eps * size)
    )
    if len(lost):
        which = f"feature {lost[0]}" if names is None else f"the feature {names[lost[0]]!r}"
        warn(
            f"{which} of X varies by less than float32 can hold beside its size (about 7 digits), so little or nothing is "
            "learned from it: subtract a start first, such as its first value."
        )


def warn_of_dark_pixels(x: Tensor) -> None:
    """Say it if uint8 images hold masks or counts: a network has them in a small part of its range, and learns little."""
    most = int(x.max())
    if len(x) > 1 and 0 < most < DARKEST:  # black frames tell nothing
        warn(
            f"X is uint8 and its largest value is {most}: uint8 is taken for pixels from 0 to 255, which become −1 to 1; pass "
            "numbers of another range as floats, which are scaled as they come."
        )


def _spans(x: Tensor) -> bool:
    """Whether each feature of samples [n, features] spans more steps of float32 than are few."""
    top, bottom = x.amax(0), x.amin(0)
    near = torch.maximum(top.abs(), bottom.abs()) * (2 * STEPS * torch.finfo(torch.float32).eps)
    return not bool((top - bottom <= near).any())


def labels(y: Any, what: str = "y") -> list[Label]:
    """One label a sample: str, int or bool. Whole floats are the ints they equal, since many tables hold ints as floats."""
    found = label_column(y, what)
    return found if isinstance(found, list) else list(found.tolist())


def label_column(y: Any, what: str = "y") -> list[Label] | Numbers:
    """The same, but an array of whole numbers stays one: a large chunk need not become a list."""
    y = arrays.on_host(arrays.drained(y))
    if y is None:
        raise MnemonError("OnlineClassifier requires y to be passed, but the target y is None.")
    arrays.check_mask(y, what)
    if isinstance(y, str | bytes | dict) or (not hasattr(y, "__len__") and not hasattr(y, "__array__")):
        raise MnemonError(f"{what} must be a list or an array of labels, not {type(y).__name__}.")
    if isinstance(y, list | tuple) and not any(isinstance(label, list | tuple | np.ndarray) for label in y):
        return _checked(list(y), what)  # NumPy would make strings of a mixed list
    try:
        a = np.asarray(y)
    except (ValueError, TypeError) as error:  # rows of different lengths
        raise MnemonError(f"{what} must have one label a sample: {error}") from None
    if a.ndim == 2 and a.shape[1] == 1:
        from sklearn.utils import column_or_1d

        a = column_or_1d(a, warn=True)
    if a.ndim != 1:
        raise MnemonError(f"{what} must have one label a sample: an array of one dimension, not of shape {a.shape}.")
    if a.dtype.kind == "i" or (a.dtype.kind == "u" and (not a.size or a.max() < 2**63)):
        return a
    if a.dtype.kind in "bU":
        return list(a.tolist())  # labels of one plain type, which fit
    return _checked(a.tolist(), what)


def _checked(found: list[Any], what: str) -> list[Label]:
    """Labels as they are kept. Those of one plain type, as most are, are not looked at one by one."""
    kinds = set(map(type, found))
    if kinds <= {str, bool} or (kinds == {int} and min(found) >= -(2**63) and max(found) < 2**63):
        return found
    return [label(each, what) for each in found]


def label(label: Any, what: str = "y") -> Label:
    """One label as it is kept."""
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) is float:
        if not math.isfinite(label):
            raise MnemonError(f"{what} has a label that is not finite: it contains NaN or infinity.")
        if label != int(label):
            raise MnemonError(
                f"Unknown label type: continuous. {what} has the value {label!r}, and a label is a str, an int or a bool."
            )
        label = int(label)
    if type(label) not in (str, int, bool):
        raise MnemonError(
            f"Unknown label type: a label is a str, an int or a bool, not {label!r} ({type(label).__name__})."
        )
    if type(label) is int and not -(2**63) <= label < 2**63:
        raise MnemonError(f"the label {label} does not fit into 64 bits.")
    return label  # type: ignore[no-any-return]


def weights(given: Any, n: int) -> NDArray[np.float64]:
    """One weight a sample, of which an average can be taken."""
    arrays.check_mask(given, "sample_weight")
    try:
        w = np.asarray(arrays.on_host(arrays.drained(given)), np.float64)
    except (ValueError, TypeError) as error:
        raise MnemonError(f"sample_weight must hold numbers: {error}.") from None
    if w.shape != (n,):
        raise MnemonError(f"sample_weight must hold one number a sample: {n}, not an array of shape {w.shape}.")
    if not np.isfinite(w).all() or (w < 0).any() or not w.any():
        raise MnemonError("sample_weight must hold finite numbers from 0 on, and not zeros alone.")
    return w


def in_order(found: list[Label] | Numbers) -> list[Label]:
    """Each label once, sorted as np.unique does; of mixed types, bools come first, then ints, then strings."""
    if not isinstance(found, list):
        return list(np.unique(found).tolist())
    keys = {(kind.__name__, label) for kind, label in set(zip(map(type, found), found, strict=True))}
    return [label for _, label in sorted(keys)]


def spelled_alike(labels: LabelTable, known: int) -> str | None:
    """What to say if a label behind the first `known` ones is likely to be one of these in another spelling: 7 and "7"."""
    pairs = [(label, twin) for label in labels.labels[known:] for twin in _spellings(label)]
    for (label, twin), c in zip(pairs, labels.find(twin for _, twin in pairs), strict=True):
        if 0 <= c < known:
            return (
                f"there is a class {label!r} ({type(label).__name__}) beside the class {twin!r} ({type(twin).__name__}): "
                "labels of different spelling or type are different classes; if they are one, rename joins them."
            )
    return None


def _spellings(label: Label) -> list[Label]:
    """How else a label may be written: as another type, as a whole float, with blanks around it."""
    if not isinstance(label, str):
        return [str(label), f"{label}.0"]
    plain = label.strip()
    found: list[Label] = [plain] * (plain != label)
    found += [each for each in [number(plain.removesuffix(".0"))] if isinstance(each, int)]
    return found + [plain == "True"] * (plain in ("True", "False"))


def class_array(found: Sequence[Label]) -> NDArray[Any]:
    """Labels as an array of their own type where they share one that holds them, else of objects."""
    kinds = {type(label) for label in found}
    if len(kinds) == 1 and not any(type(label) is str and label.endswith("\0") for label in found):
        return np.array(found)  # (NumPy's strings lose NULs at the end)
    out = np.empty(len(found), object)
    out[:] = found
    return out
