"""Which method for which stream: accuracy, rank and cost of every method that learns from the stream, beside ER's.

A rank compares only methods that were run on all streams of a kind: one that was not run on the hard ones gets none, instead
of looking good on the others. Cost is what Figure 4 measures, on the ResNet; nothing is timed on MNIST's network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mnemon.experiments import protocol
from mnemon.learning.build import choose
from mnemon.paper import cells, times
from mnemon.paper.cells import Cell, Row, Sample
from mnemon.paper.claims import LEAST, gap
from mnemon.paper.results import Absent, Source
from mnemon.paper.tables import NOT_RUN, NOTHING, label, ours
from mnemon.render import names
from mnemon.render.tables import Bold, Column, Part, Table

NOT_MEASURED = "not measured"
STREAMS = (*cells.SPLIT_STREAMS, *cells.SMOOTH_STREAMS)
KINDS = {"Split": cells.SPLIT_STREAMS, "Smooth": cells.SMOOTH_STREAMS}
# dataset → the stream whose times are its: the same network on images of the same size
TIMED_AS = {
    "cifar10": "split-cifar100-10",
    "cifar100": "split-cifar100-10",
    "mini_imagenet": "split-mini_imagenet-10",
}
COST_STREAM = "split-cifar100-10"  # of the table
FULL_TEST = 10_000  # images; with fewer the class means weigh more than they do in a real test


def rows() -> list[Row]:
    """Those of Table 1 that learn from the stream."""
    return list(cells.online_rows())


def cell(row: Row, stream: str) -> Cell:
    return Cell(4 if stream in cells.SMOOTH_STREAMS else 1, row, stream)


def found(source: Source, row: Row, stream: str) -> Sample:
    return source.library.of_cell(cell(row, stream), source.seeds)


def streams(source: Source, among: Sequence[str] = STREAMS) -> list[str]:
    """Those that have records."""
    return [stream for stream in among if any(found(source, row, stream).values for row in rows())]


# --- ranks


class Ranks(NamedTuple):
    streams: list[str]
    of: dict[Row, float]  # the mean rank of each method that was run on all of them


def ranks(source: Source, kind: str) -> Ranks:
    """1 is the best; methods with the same accuracy share the mean of their places."""
    here = streams(source, KINDS[kind])
    samples = {row: [found(source, row, stream) for stream in here] for row in rows()}
    compared = {
        row: [sample.mean for sample in mine]
        for row, mine in samples.items()
        if here and all(len(sample.values) >= LEAST for sample in mine)
    }
    if len(compared) < 2:
        return Ranks(here, {})
    columns = list(zip(*compared.values(), strict=True))
    return Ranks(here, {row: sum(map(_place, columns, mine)) / len(here) for row, mine in compared.items()})


def _place(column: Sequence[float], mine: float) -> float:
    return sum(other > mine for other in column) + (1 + sum(other == mine for other in column)) / 2


# --- cost


class Cost(NamedTuple):
    """How many times ER's; None where it was not measured."""

    step: float | None
    test: float | None


def cost(source: Source, row: Row, stream: str = COST_STREAM) -> Cost:
    """On the images of a stream: a training step, and a test pass with the row's classifier beside one with softmax."""
    timed = TIMED_AS.get(protocol.parse(stream).dataset)
    lines = times.on_one_device(source.times, timed) if timed else {}
    mine, er = lines.get(row.method), lines.get("er")
    if mine is None or er is None:
        return Cost(None, None)
    test = mine["test_s"].get(row.classifier), er["test_s"].get("softmax")
    whole = all(test) and min(mine["tested"], er["tested"]) >= FULL_TEST
    return Cost(mine["step_ms"] / er["step_ms"], test[0] / test[1] if whole else None)


def kept(row: Row, shape: Sequence[int] = times.SHAPES[COST_STREAM], classes: int = 100) -> int | None:
    """Bytes beside each image of the memory and its label; None where a method keeps no images."""
    method = choose(row.method).method
    if not method.replays:
        return None
    numbers = [(8 if isinstance(column.fill, int) else 4) * (classes if column.per_class else 1)
               for column in method.columns.values()]  # fmt: skip
    pixels = 1
    for side in shape:
        pixels *= side
    return sum(numbers) + 3 * pixels * method.edits_memory  # an image that is edited is float32, not bytes


# --- the table


def table(source: Source) -> Table:
    """Accuracy on each stream that has records, mean ranks, cost, memory."""
    here, every = streams(source), rows()
    by_kind = {kind: ranks(source, kind) for kind in KINDS}
    ranked = {kind: known for kind, known in by_kind.items() if known.streams}
    columns = [Column("", "method"), *(Column("", names.stream(stream)) for stream in here)]
    columns += [Column("", _rank_head(kind, known)) for kind, known in ranked.items()]
    columns += [Column("", "step, × ER's"), Column("", "test pass, × ER's"), Column("", "kept beside an image")]
    lines = []
    accuracy = {stream: _column(source, stream) for stream in here}
    for row in every:
        line = [label(row), *(accuracy[stream][row] for stream in here)]
        line += [_rank(source, row, known) for known in ranked.values()]
        price = cost(source, row)
        line += [NOT_MEASURED if times_ is None else names.fixed(times_) for times_ in price]
        extra = kept(row)
        line.append("no memory" if extra is None else f"{names.thousands(extra)} bytes" if extra else NOTHING)
        lines.append(line)
    return Table("ranking", "Which method for which stream", [Part(columns, lines)], _notes(source, here))


def _column(source: Source, stream: str) -> dict[Row, str]:
    """The best in bold; ≈ beside those that the seeds they share do not tell from it."""
    there = {row: found(source, row, stream) for row in rows()}
    run = [row for row, sample in there.items() if sample.values]
    best = max(run, key=lambda row: there[row].mean)
    written = {row: ours(sample) if sample.values else NOT_RUN for row, sample in there.items()}
    if len(run) < 2:
        return written
    for row in run:
        if names.fixed(there[row].mean) == names.fixed(there[best].mean):
            written[row] = Bold(written[row])
        elif _alike(source, row, best, stream):
            written[row] += " ≈"
    return written


def _alike(source: Source, row: Row, best: Row, stream: str) -> bool:
    try:
        return not gap(source, row, best, stream, cell(row, stream).table).below
    except Absent:
        return False


def _rank_head(kind: str, known: Ranks) -> str:
    return f"mean rank on {kind}" + (f" (of {len(known.of)})" if known.of else "")


def _rank(source: Source, row: Row, known: Ranks) -> str:
    if row in known.of:
        return names.fixed(known.of[row], 1)
    run = sum(len(found(source, row, stream).values) >= LEAST for stream in known.streams)
    return f"– ({run} of {len(known.streams)} run)"


def _notes(source: Source, here: Sequence[str]) -> list[str]:
    notes = [
        "Percent, mean ± half-width of the 95 % interval over 15 seeds (n = … where fewer). Bold: the best of a column; ≈ not "
        "told from the best: the 95 % interval of the difference over common seeds includes zero. † not in the paper.",
        "A rank is by accuracy, 1 the best, and its mean over the streams of a kind that have records; it is given to the "
        "methods that were run on all of these, and counted among them alone. The others say how many they were run on.",
    ]
    lines = times.on_one_device(source.times, COST_STREAM)
    where = f" ({next(iter(lines.values()))['device']})" if lines else ""
    notes.append(
        f"Cost: images of 3×32×32, 100 classes, memory of 1000{where}; a step beside ER's, a test pass beside ER's with "
        "softmax. Kept beside an image: what a method stores for each sample of its memory there, besides bytes of pixels "
        "and a label."
    )
    if absent := [names.stream(stream) for stream in STREAMS if stream not in here]:
        notes.append(f"No records of: {'; '.join(absent)}.")
    return notes


# --- accuracy against cost


class Point(NamedTuple):
    row: Row
    cost: float  # of a step, times ER's
    mean: float
    half: float
    best: bool = False  # nobody is as cheap and better, or as good and cheaper


def points(source: Source, stream: str) -> list[Point]:
    """The methods that were run on the stream and timed."""
    every = []
    for row in rows():
        there, price = found(source, row, stream), cost(source, row, stream).step
        if there.values and price is not None:
            every.append(Point(row, price, there.mean, there.half or 0.0))
    return [one._replace(best=not any(_beats(other, one) for other in every)) for one in every]


def _beats(one: Point, other: Point) -> bool:
    no_worse = one.cost <= other.cost and one.mean >= other.mean
    return no_worse and (one.cost < other.cost or one.mean > other.mean)
