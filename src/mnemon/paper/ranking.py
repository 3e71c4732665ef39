"""Accuracy, rank and cost of every method that learns from the stream, relative to ER's.

A rank compares only methods that were run on all streams of a kind: one that was not run on the hard ones gets none, instead
of looking good on the others. Costs are the times of Figure 4, on the ResNet; nothing is timed on MNIST's network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mnemon.experiments import protocol
from mnemon.experiments.stats import Estimate
from mnemon.learning.build import choose
from mnemon.paper import cells, times
from mnemon.paper.cells import Cell, Row
from mnemon.paper.pareto import Trade, front
from mnemon.paper.results import CellRuns, Results

STREAMS = (*cells.SPLIT_STREAMS, *cells.SMOOTH_STREAMS)
KINDS = {"Split": cells.SPLIT_STREAMS, "Smooth": cells.SMOOTH_STREAMS}
# dataset → the stream whose times are its: the same network on images of the same size
TIMED_AS = {"cifar10": "split-cifar100-10", "cifar100": "split-cifar100-10", "mini_imagenet": "split-mini_imagenet-10"}
COST_STREAM = "split-cifar100-10"  # of the table
FULL_TEST = 10_000  # images; with fewer the class means weigh more than they do in a real test


def cell(row: Row, stream: str) -> Cell:
    return Cell(4 if stream in cells.SMOOTH_STREAMS else 1, row, stream)


def found(results: Results, row: Row, stream: str) -> CellRuns:
    return results.of(cell(row, stream))


def streams(results: Results) -> list[str]:
    """Those that have records."""
    return [stream for stream in STREAMS if any(found(results, row, stream).values for row in cells.online_rows())]


class Ranks(NamedTuple):
    streams: list[str]
    of: dict[Row, float]  # the mean rank of each method that was run on all of them


def ranks(results: Results, kind: str) -> Ranks:
    """1 is the best; methods with the same accuracy share the mean of their places."""
    here = _ranked_streams(results, kind)
    compared = {}
    for row in cells.online_rows():
        means = [judged.mean for stream in here if (judged := found(results, row, stream).judged)]
        if here and len(means) == len(here):
            compared[row] = means
    if len(compared) < 2:
        return Ranks(here, {})
    columns = list(zip(*compared.values(), strict=True))
    return Ranks(here, {row: sum(map(_place, columns, mine)) / len(here) for row, mine in compared.items()})


def _ranked_streams(results: Results, kind: str) -> list[str]:
    """Those with records of more than half as many methods as the stream of the kind that has most: a stream whose runs have
    only begun would leave the ranks of a few methods."""
    run = {
        stream: sum(bool(found(results, row, stream).values) for row in cells.online_rows()) for stream in KINDS[kind]
    }
    return [stream for stream, methods in run.items() if 2 * methods > max(run.values())]


def _place(column: Sequence[float], mine: float) -> float:
    return sum(other > mine for other in column) + (1 + sum(other == mine for other in column)) / 2


class Cost(NamedTuple):
    """Relative to ER's; None where it was not measured."""

    step: float | None
    test: float | None


def cost(results: Results, row: Row, stream: str = COST_STREAM) -> Cost:
    """On the images of a stream: a training step, and a test pass with the row's classifier relative to one with softmax."""
    timed = TIMED_AS.get(protocol.parse(stream).dataset)
    lines = times.on_one_device(results.times, timed) if timed else {}
    mine, er = lines.get(row.method), lines.get("er")
    if mine is None or er is None:
        return Cost(None, None)
    test = mine["test_s"].get(row.classifier), er["test_s"].get("softmax")
    whole = all(test) and min(mine["tested"], er["tested"]) >= FULL_TEST
    return Cost(mine["step_ms"] / er["step_ms"], test[0] / test[1] if whole else None)


def extra_bytes(row: Row) -> int | None:
    """Bytes kept for each sample of the memory, beside its pixels as bytes and its label, with 100 classes and images of the
    table's stream; None where a method keeps no samples."""
    method = choose(row.method).method
    if not method.replays:
        return None
    columns = method.columns.values()
    beside = sum((8 if isinstance(each.fill, int) else 4) * (100 if each.per_class else 1) for each in columns)
    # An image that is edited is float32, not bytes.
    return beside + 3 * math.prod(times.SHAPES[COST_STREAM]) * method.edits_memory


class Point(NamedTuple):
    """A method in the picture of accuracy against cost."""

    row: Row
    cost: float  # of a step, relative to ER's
    accuracy: Estimate
    best: bool = False  # on the Pareto front


def points(results: Results, stream: str) -> list[Point]:
    """The methods that were run on the stream and timed."""
    every = []
    for row in cells.online_rows():
        accuracy, price = found(results, row, stream).estimate, cost(results, row, stream).step
        if accuracy is not None and price is not None:
            every.append(Point(row, price, accuracy))
    best = front([Trade(point.cost, point.accuracy.mean) for point in every])
    return [point._replace(best=is_best) for point, is_best in zip(every, best, strict=True)]
