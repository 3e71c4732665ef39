"""The searches of a folder (OUT/tuning, by `mnemon tune`) as a table: what was tried for each cell, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.experiments.recipes import grids
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import estimate
from mnemon.paper import row_settings
from mnemon.render import names

SHOWN = 4  # candidates of a search, the best first
NEEDED = {"method", "loss", "stream", "fixed", "seeds", "candidates"}  # of a log
OF_GRID, OF_SPACE = {"grid", "rounds"}, {"space", "search", "trials"}  # of a search of a grid, of a space


def markdown(out: Path, *, of_rows: bool = False) -> str:
    """A line for each search, those of Split MNIST first: the searches for cells, or those for rows beyond the paper."""
    logs = [log for path in sorted((out / "tuning").glob("*.json")) if ("row" in (log := _read(path))) == of_rows]
    logs.sort(
        key=lambda log: (not log["stream"].startswith("split-mnist"), log["stream"], names.method_order(log["method"]))
    )
    head = ["| cell | tried | seeds | the recipe now | validation accuracy, the best first |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(_line, logs)]) + "\n"


def _line(log: dict[str, Any]) -> str:
    every = [c for c in log["candidates"] if c["mean"] is not None]
    finalists = [c for c in every if _is_finalist(log, c)]
    best = [f"{_candidate(c)}: {estimate(c['accuracies'].values())}" for c in finalists[:SHOWN]]
    more = len(log["candidates"]) - len(best)
    tried = " × ".join(
        f"{names.SYMBOLS.get(name, name)} {v if isinstance(v, str) else ', '.join(map(str, v))}"
        for name, v in _searched(log).items()
    )
    usual = grids.grid(log["method"], log["loss"])
    # Searched at another time, or never.
    if held := {name: value for name, value in log["fixed"].items() if name in usual}:
        tried += f", at {names.settings(held)}"
    diverged = sum(bool(c["diverged"]) for c in log["candidates"])
    said = "; ".join(best) + (f"; {more} more" if more else "") + (f"; {diverged} diverged" if diverged else "")
    seeds = f"{min(log['seeds'])}–{max(log['seeds'])}"
    if "space" in log:
        seeds += f", {log['trials']} trials of {log['search']}"
    elif len(log["rounds"]) > 1:
        seeds = f"{log['rounds'][0]['seeds'][0]}, the best {log['rounds'][1]['candidates']} on {seeds}"
    what = log.get("row") or names.training(log["method"], log["loss"])
    return f"| {what}, {names.stream(log['stream'])} | {tried} | {seeds} | {_now(log)} | {said} |"


def _searched(log: dict[str, Any]) -> dict[str, Any]:
    """The options that were searched, each with its values, or with its range in words."""
    searched: dict[str, Any] = log["space"] if "space" in log else log["grid"]
    return searched


def _is_finalist(log: dict[str, Any], candidate: dict[str, Any]) -> bool:
    """Whether it went as far as any."""
    if "space" in log:
        return len(candidate["accuracies"]) == len(log["seeds"])
    return bool(candidate["rounds"] == len(log["rounds"]))


def _candidate(candidate: dict[str, Any]) -> str:
    """Its values, and the classifier where several were tried."""
    classifier = candidate.get("classifier")
    return names.settings(candidate["values"]) + (f", {classifier}" if classifier else "")


def _now(log: dict[str, Any]) -> str:
    """What the recipe, or the row, has today."""
    if "row" not in log:
        options = Spec(log["method"], log["stream"], loss=log["loss"]).choice().every_option()
        return names.settings({name: options[name] for name in _searched(log)})
    chosen = row_settings.chosen(log["row"], log["stream"])
    if chosen is None:
        return "not kept"
    values = {name: chosen.values[name] for name in _searched(log) if name in chosen.values}
    return _candidate({"values": values, "classifier": chosen.classifier})


def _read(path: Path) -> dict[str, Any]:
    try:
        log: dict[str, Any] = files.parsed(path.read_bytes())
        if not log.keys() >= NEEDED | (OF_SPACE if "space" in log else OF_GRID):
            raise ValueError
    except (OSError, ValueError, AttributeError):
        raise MnemonError(f"{path} is not the log of a search; repair or remove it.") from None
    return log
