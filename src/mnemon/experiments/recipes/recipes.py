"""The hyper-parameters of each cell, used where the caller names none.

They are data: recipes.json beside this file, one line a cell with its values and where they come from. The paper prints
γ and η of its own method (its Table 7); of the baselines it prints the grid alone. What was chosen on the validation
split gets there by `mnemon tune --keep`. Cells without a line stand at the defaults of the method.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.learning import plugins

PATH = Path(__file__).with_name("recipes.json")

OF_HYBRID = {"hybrid": {"lr", "gamma", "divisor"}, "ms": {"lr", "divisor"}, "pnca": {"lr"}}  # loss → its share

Name = tuple[str, str, str]  # method, loss, stream: split-cifar100 for any number of tasks, as in the paper's Table 7


class Recipe(NamedTuple):
    """The values of a cell, and where they come from, in words."""

    values: dict[str, Any]
    source: str


def recipe(method: str, loss: str, kind: str, dataset: str) -> dict[str, Any]:
    """Values for some options of the method and its loss; empty where the defaults stand.

    A Smooth stream without a cell takes that of the Split stream. A method without one takes ER's η with cross-entropy (but
    not the i.i.d. bounds, which learn from no stream), and what concerns its loss of the hybrid's cell with a loss that is
    a part of the hybrid's.
    """
    return _found(method, loss, kind, dataset).values


def source(method: str, loss: str, kind: str, dataset: str) -> str:
    """Where the values of a recipe come from, in words."""
    return _found(method, loss, kind, dataset).source


def _found(method: str, loss: str, kind: str, dataset: str) -> Recipe:
    whose: list[tuple[str, str, set[str] | None]] = [(method, loss, None)]  # whose cell, and what of it (None: all)
    known = plugins.known("method").get(method)
    if loss == "ce" and not (known and known.epochs):
        whose.append(("er", "ce", None))
    if loss in OF_HYBRID:
        whose.append(("hybrid", "hybrid", OF_HYBRID[loss]))
    for who, its_loss, takes in whose:
        for stream in (f"{kind}-{dataset}", f"split-{dataset}"):
            if found := cells().get((who, its_loss, stream)):
                source = found.source if (who, its_loss) == (method, loss) else f"{who}'s: {found.source}"
                return Recipe({k: v for k, v in found.values.items() if takes is None or k in takes}, source)
    return Recipe({}, "defaults of the method")


@lru_cache(maxsize=1)
def cells() -> dict[Name, Recipe]:
    """All cells by name."""
    try:
        lines = files.parsed(PATH.read_bytes())
        return {(c["method"], c["loss"], c["stream"]): Recipe(dict(c["values"]), str(c["source"])) for c in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MnemonError(f"the recipes in {PATH} cannot be read ({error}).") from None


def keep(name: Name, cell: Recipe) -> None:
    """Put one cell into the file, or another in its place; the other lines stay as they are, others' since we started too."""
    try:
        with FileLock(PATH.with_suffix(".lock")):
            cells.cache_clear()
            lines = [
                {"method": method, "loss": loss, "stream": stream, "values": each.values, "source": each.source}
                for (method, loss, stream), each in sorted((cells() | {name: cell}).items())
            ]
            text = ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
            files.write(PATH, f"[\n{text}\n]\n".encode())
    except OSError as error:
        raise MnemonError(
            f"the recipes in {PATH} cannot be written ({error.strerror}): keep values in a source checkout of mnemon."
        ) from None
    cells.cache_clear()
