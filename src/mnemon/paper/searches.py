"""The searches of a folder (OUT/tuning, by `mnemon tune`) as a table: what was tried for each cell, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mnemon import files
from mnemon.errors import MnemonError
from mnemon.experiments.recipes import grids
from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import estimate
from mnemon.render import names

SHOWN = 4  # candidates of a search, the best first
NEEDED = {"method", "loss", "stream", "grid", "fixed", "seeds", "rounds", "candidates"}  # of a log


def markdown(out: Path) -> str:
    """A line for each search, those of Split MNIST first."""
    logs = [_read(path) for path in sorted((out / "tuning").glob("*.json"))]
    logs.sort(
        key=lambda log: (not log["stream"].startswith("split-mnist"), log["stream"], names.method_order(log["method"]))
    )
    head = ["| cell | tried | seeds | the recipe now | validation accuracy, the best first |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(_line, logs)]) + "\n"


def _line(log: dict[str, Any]) -> str:
    every = [c for c in log["candidates"] if c["mean"] is not None]
    finalists = [c for c in every if c["rounds"] == len(log["rounds"])]
    best = [f"{names.settings(c['values'])}: {estimate(c['accuracies'].values())}" for c in finalists[:SHOWN]]
    more = len(log["candidates"]) - len(best)
    tried = " × ".join(f"{names.SYMBOLS.get(name, name)} {', '.join(map(str, v))}" for name, v in log["grid"].items())
    usual = grids.grid(log["method"], log["loss"])
    # Searched at another time, or never.
    if held := {name: value for name, value in log["fixed"].items() if name in usual}:
        tried += f", at {names.settings(held)}"
    diverged = sum(bool(c["diverged"]) for c in log["candidates"])
    said = "; ".join(best) + (f"; {more} more" if more else "") + (f"; {diverged} diverged" if diverged else "")
    seeds = f"{min(log['seeds'])}–{max(log['seeds'])}"
    if len(log["rounds"]) > 1:
        seeds = f"{log['rounds'][0]['seeds'][0]}, the best {log['rounds'][1]['candidates']} on {seeds}"
    options = Spec(log["method"], log["stream"], loss=log["loss"]).choice().every_option()  # as they are now
    kept = names.settings({name: options[name] for name in log["grid"]})
    method = names.training(log["method"], log["loss"])
    return f"| {method}, {names.stream(log['stream'])} | {tried} | {seeds} | {kept} | {said} |"


def _read(path: Path) -> dict[str, Any]:
    try:
        log: dict[str, Any] = files.parsed(path.read_bytes())
        if not log.keys() >= NEEDED:
            raise ValueError
    except (OSError, ValueError, AttributeError):
        raise MnemonError(f"{path} is not the log of a search; mend or remove it.") from None
    return log
