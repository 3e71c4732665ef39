"""Users' samples as tensors, by the same rules in `mnemon.run` and `OnlineClassifier`: arrays, tensors, frames, lists.

Values are plain numbers, all finite. Images of uint8 stay uint8, all other numbers become float32; channels come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, time, timedelta
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mnemon.data.layout import is_last, unmark
from mnemon.errors import MnemonError

DATES = (date, time, timedelta, np.datetime64, np.timedelta64)  # those of pandas are among them, NaT too


def drained(values: Any) -> Any:
    """An iterator's values as a list, a table of pyarrow as a frame. Should it raise midway, nothing was learned yet."""
    if type(values).__module__.startswith("pyarrow") and hasattr(values, "to_pandas"):
        try:
            return values.to_pandas()
        except ImportError:
            raise MnemonError("a table of pyarrow is read by pandas: pip install pandas.") from None
    return list(values) if isinstance(values, Iterator) else values


def on_host(values: Any) -> Any:
    """A tensor, or a list of them, as NumPy; everything else as it is."""
    if isinstance(values, Tensor):
        known = not values.is_floating_point() or values.dtype in (torch.float32, torch.float64)
        try:
            return (values if known else values.float()).detach().cpu().numpy()
        except (TypeError, RuntimeError):  # sparse, nested, quantised, meta, …
            kind = f"{values.dtype}, {values.layout}, on {values.device}"
            raise MnemonError(f"a tensor must hold plain numbers; one of {kind} cannot be read.") from None
    if isinstance(values, list | tuple) and values and all(isinstance(value, Tensor) for value in values):
        shapes = {tuple(value.shape): None for value in values}
        if len(shapes) > 1:
            raise MnemonError(
                f"a list of tensors must hold tensors of one shape, not {' and '.join(map(str, [*shapes][:2]))}."
            )
        return np.stack([on_host(value) for value in values])
    return values


def is_frame(values: Any) -> bool:
    """A pandas (or polars) frame, recognised without importing either."""
    return hasattr(values, "columns") and hasattr(values, "shape")


def array(values: Any, what: str) -> NDArray[Any]:
    """Anything that `on_host` returns as one array."""
    check_mask(values, what)
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        _refuse_mixed_sizes(values, what)
        raise MnemonError(f"{what} is not one array of numbers ({error}).") from None


def check_mask(values: Any, what: str) -> None:
    """Refuse masked values, which `np.asarray` would take for the numbers behind the mask."""
    parts = values if isinstance(values, list | tuple) else [values]
    for i, part in enumerate(parts):
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            where = "" if part is values else f", the first one in sample {i}"
            raise MnemonError(
                f"{what} is a masked array with masked values{where}; fill them first, such as {what}.filled(0), or leave "
                "their samples out."
            )


def _refuse_mixed_sizes(values: Any, what: str) -> None:
    """Say which two samples of a list differ in size, where they are arrays or images."""
    shapes = [np.shape(value) for value in values if hasattr(value, "__array_interface__") or hasattr(value, "shape")]
    other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), None)
    if other is None or len(shapes) < len(values) or min(len(shapes[0]), len(shapes[other])) < 2:
        return
    first, then = (" × ".join(map(str, shape)) for shape in (shapes[0], shapes[other]))
    if shapes[0][:2] == shapes[other][:2]:
        raise MnemonError(
            f"{what} holds images of different channels: sample 0 is {first}, sample {other} is {then} (rows × columns × "
            "channels); convert all to RGB or to grey first."
        )
    raise MnemonError(
        f"{what} holds images of different sizes: sample 0 is {first}, sample {other} is {then} (rows × columns × channels); "
        "all must have one size, so resize or crop them first."
    ) from None  # NumPy's own words are of no use


def check_numbers(a: NDArray[Any], what: str) -> None:
    """Refuse text, complex numbers and dates."""
    if a.dtype.kind in "USV":
        raise MnemonError(f"{what} holds text ({a.dtype}) and no plain numbers; turn it into numbers first.")
    check_real(a, what)


def check_columns(frame: Any, what: str) -> None:
    """Refuse a frame with a column of dates or complex numbers. NumPy would take dates for whole numbers, and a missing one for
    −2⁶³."""
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if getattr(dtype, "kind", "O") not in "biuf":
            check_real(np.asarray(frame[name]), f"the column {name!r} of {what}")


def check_real(a: NDArray[Any], what: str) -> None:
    """Refuse complex numbers and dates."""
    if a.dtype.kind == "c":
        raise MnemonError(f"Complex data not supported: {what} is {a.dtype} of shape {a.shape}.")
    if _has_dates(a):
        refuse_dates(what)


def _has_dates(a: NDArray[Any]) -> bool:
    return a.dtype.kind in "mM" or (a.dtype.kind == "O" and any(map(is_date, a.flat)))


def is_date(cell: Any) -> bool:
    return isinstance(cell, DATES)


def refuse_dates(what: str) -> NoReturn:
    raise MnemonError(f"{what} holds dates or times; turn them into numbers first, such as days since the first one.")


def tensor(
    a: NDArray[Any], what: str, *, last: bool | None, usual: bool, learned: tuple[int, ...] | None = None
) -> Tensor:
    """Samples [n, …] as uint8 or float32, images of four dimensions with their channels first.

    `last`: whether the user says that the channels are last; None: `is_last` decides, with `usual` and `learned`.
    """
    if a.ndim < 2 or a.size == 0:
        raise MnemonError(f"{what} must hold samples of at least one value, not an array of shape {a.shape}.")
    if a.dtype != np.uint8:
        with np.errstate(over="ignore"):
            a = a.astype(np.float32, copy=False)
    x = torch.from_numpy(np.require(a, requirements=["C", "W"]))  # PyTorch warns of arrays that are read-only
    if x.dtype != torch.uint8 and not torch.isfinite(torch.stack(x.aminmax())).all():
        bad = ~torch.isfinite(x).flatten(1).all(1)
        raise MnemonError(
            f"{what} has a value that is not finite (NaN, infinite or too large for float32) in sample "
            f"{int(bad.nonzero()[0])}."
        )
    if x.ndim == 4 and (is_last(tuple(x.shape), usual=usual, learned=learned) if last is None else last):
        return x.permute(0, 3, 1, 2).contiguous()
    return x


def samples(values: Any, what: str) -> Tensor:
    """Samples for a learner that does not scale them: uint8, which it takes for pixels, or floats, taken as they are."""
    values, last = unmark(values)
    values = on_host(drained(values))
    if is_frame(values):
        check_columns(values, what)
    a = array(values, what)
    check_numbers(a, what)
    if a.dtype.kind == "O":
        try:
            a = a.astype(np.float64)
        except (ValueError, TypeError):
            raise MnemonError(
                f"{what} holds objects of mixed sizes or types and no plain numbers; turn them into numbers first."
            ) from None
    if a.dtype.kind != "f" and a.dtype != np.uint8:
        raise MnemonError(f"{what} holds {a.dtype}: pass images as uint8 (0 to 255), other values as floats.")
    return tensor(a, what, last=last, usual=False)
