"""Tables as columns of cells: frames, dicts and arrays read alike, with every missing value told apart from a value."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemon.data import arrays
from mnemon.errors import MnemonError
from mnemon.estimator import rows
from mnemon.runtime.warn import warn

NUMBER, CATEGORY = "number", "category"
Category = str | int | bool
Name = str | int


class NoCell(MnemonError, TypeError):
    """A cell is neither a number nor a category, which scikit-learn calls a TypeError."""


class Column(NamedTuple):
    """One feature of all samples of a chunk. Numbers: float64, NaN where missing. Cells: any objects, None where missing."""

    numbers: NDArray[np.float64] | None
    cells: list[Any]
    categorical: bool = False  # its type says so, whatever the values are

    def kind(self) -> str | None:
        """What the feature is, judged by its type or its first value; None where every value is missing."""
        if self.numbers is not None:
            return None if np.isnan(self.numbers).all() else NUMBER
        first = next((cell for cell in self.cells if cell is not None), None)
        if first is None:
            return None
        return CATEGORY if self.categorical or isinstance(first, str | bool | np.bool_) else NUMBER


class Columns(NamedTuple):
    """A chunk: its features by name, in the order in which they come, and its samples."""

    of: dict[Name, Column]
    samples: int


def listed(X: Any) -> Any:
    """A frame and a list of dicts as they are, all else as an array, of objects where it is not of numbers alone."""
    X = arrays.on_host(arrays.drained(X))
    if isinstance(X, Mapping):
        raise MnemonError("samples come as a frame, an array or a list of dicts, not as one dict.")
    if arrays.is_frame(X) or (isinstance(X, list | tuple) and len(X) and _is_dict(X[0])):
        return X
    if isinstance(X, np.ma.MaskedArray):
        values = X.data.astype(np.float64 if X.dtype.kind in "iuf" else object)
        values[np.ma.getmaskarray(X)] = np.nan
        return values
    if isinstance(X, np.ndarray):
        return X
    try:
        return np.array(X, dtype=object)  # not by NumPy's guess, which makes text of numbers beside text
    except ValueError as error:
        raise MnemonError(f"X is not a table: {error}.") from None


def warn_of_numbers_as_text(X: Any) -> None:
    """Say it if an array of text has a column of numbers: NumPy makes text of numbers that stand beside text."""
    if not (isinstance(X, np.ndarray) and X.dtype.kind == "U" and X.ndim == 2 and len(X)):
        return
    for i, column in enumerate(X.T):
        try:
            column.astype(np.float64)
        except ValueError:
            continue
        warn(
            f"X is an array of text, so the numbers in its column {i} are text too and become categories; pass a frame, dicts, "
            "or an array of dtype object, in which numbers stay numbers."
        )
        return


def _is_dict(x: Any) -> bool:
    return isinstance(x, Mapping)


def read(X: Any, names: Sequence[Name]) -> Columns:
    """A frame, a list of dicts, or an array [n, features] whose features have these names."""
    if arrays.is_frame(X):
        found = rows.plain(X.columns)
        rows.check_once(found)
        arrays.check_columns(X, "X")
        return Columns({name: _series(X[key]) for name, key in zip(found, X.columns, strict=True)}, len(X))
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "iuf":
            table = X.astype(np.float64)
            return Columns({name: Column(table[:, i], []) for i, name in enumerate(names)}, len(X))
        return Columns({name: _objects(name, X[:, i].tolist()) for i, name in enumerate(names)}, len(X))
    return _dicts(X)


def _dicts(X: Sequence[Any]) -> Columns:
    """A feature that a sample lacks is a missing value there."""
    seen: dict[Any, None] = {}
    for x in X:
        if not isinstance(x, Mapping):
            raise MnemonError(f"a sample is a dict of features, not {type(x).__name__}.")
        seen.update(dict.fromkeys(x))
    names = rows.plain(seen)
    if len(X) == 1:
        (x,) = X
        return Columns({name: _objects(name, [x[key]]) for name, key in zip(names, seen, strict=True)}, 1)
    return Columns(
        {name: _objects(name, [x.get(key) for x in X]) for name, key in zip(names, seen, strict=True)}, len(X)
    )


def _series(column: Any) -> Column:
    """A column of a frame, by its type; one of objects by its cells."""
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "kind", "") in ("i", "u", "f"):
        return Column(column.to_numpy(dtype=np.float64, na_value=np.nan), [])
    a = np.asarray(column)
    if a.dtype.kind in "iuf" and str(dtype) != "category":
        return Column(a.astype(np.float64), [])
    cells = _objects(getattr(column, "name", ""), a.tolist())
    return cells._replace(categorical=str(dtype) == "category")


def _objects(name: Any, cells: list[Any]) -> Column:
    for i, cell in enumerate(cells):
        if arrays.is_date(cell):
            arrays.refuse_dates(f"the feature {name!r}")
        if _missing(cell):
            cells[i] = None
    return Column(None, cells)


def _missing(cell: Any) -> bool:
    """None, NaN, pandas' NA (known by its name: pandas need not be there) and a masked cell."""
    if isinstance(cell, float | np.floating):
        return bool(cell != cell)
    return cell is None or cell is np.ma.masked or type(cell).__name__ == "NAType"


def number(name: Name, cell: Any) -> float:
    """The cell of a feature that holds numbers."""
    if isinstance(cell, str | bytes):
        raise MnemonError(
            f"the feature {name!r} holds numbers, and one of its values is text ({str(cell)!r:.60}); a feature is of one kind."
        )
    try:
        return float(cell)
    except (TypeError, ValueError) as error:
        if isinstance(cell, numbers.Number):
            raise MnemonError(f"the feature {name!r} has a value that is no plain number: {error}.") from None
        raise NoCell(f"the feature {name!r} holds a {type(cell).__name__}: {error}.") from None
    except OverflowError:
        raise MnemonError(f"the feature {name!r} has a number that is too large.") from None


def category(name: Name, cell: Any) -> Category:
    """The cell of a feature that holds categories; whole floats are the ints they equal, as among labels."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if type(cell) is float and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, str):
        return str(cell)
    if type(cell) not in (int, bool):
        raise MnemonError(
            f"the feature {name!r} holds categories, and one of its values is {str(cell)!r:.60} ({type(cell).__name__}); a "
            "category is a str, an int or a bool."
        )
    if type(cell) is int and not -(2**63) <= cell < 2**63:
        raise MnemonError(f"the feature {name!r} has a category that does not fit into 64 bits.")
    return cell  # type: ignore[no-any-return]


def numbers_of(name: Name, column: Column) -> NDArray[np.float64]:
    """A column of numbers [n], NaN where missing; all others are finite in float32."""
    values = column.numbers
    if values is None:
        values = np.array([np.nan if cell is None else number(name, cell) for cell in column.cells])
    with np.errstate(over="ignore"):
        infinite = np.isinf(values.astype(np.float32))
    if infinite.any():
        raise MnemonError(
            f"the feature {name!r} has a value that is not finite (infinite or too large for float32) in sample "
            f"{int(infinite.argmax())}."
        )
    return values


def categories_of(name: Name, column: Column) -> list[Category | None]:
    """A column of categories [n], None where missing."""
    found = column.cells
    if column.numbers is not None:
        found = [None if value != value else value for value in column.numbers.tolist()]
    return [None if cell is None else category(name, cell) for cell in found]
