"""Blocks of documents that are no target of `mnemon reproduce`: a stream, a method, the times of steps."""

from __future__ import annotations

from mnemon.experiments import protocol
from mnemon.experiments.recipes import grids, recipes
from mnemon.paper import beyond, beyond_readings, cells, numbers, times
from mnemon.paper.cells import Cell
from mnemon.paper.comparison import NOTHING, ours, theirs, with_runs
from mnemon.paper.results import Results
from mnemon.render import names
from mnemon.render.tables import Bold, Heading, Part, Table, headings

SHORT = ("hybrid", "er", "fine-tune", "mir", "gmed-mir", "cope", "hybrid-ace", "pcr", "iid-online", "iid-offline")


def one_stream(stream: str, results: Results) -> Table:
    """Some methods on one stream with accuracy, forgetting and seconds: those that have records."""
    rows: list[list[str]] = []
    means: dict[int, float] = {}
    listed = [row for row in cells.rows(1) if row.method in SHORT]
    for row in sorted(listed, key=lambda row: SHORT.index(row.method)):
        accuracy, forgetting = Cell(1, row, stream), Cell(2, row, stream)
        found, lost = results.of(accuracy), results.of(forgetting)
        if not found.values:
            continue
        seconds = [sum(r["seconds"].values()) for r in found.records.values()]
        line = [row.label, ours(found), theirs(accuracy), NOTHING if row.bound else ours(lost)]
        line += [NOTHING if row.bound else theirs(forgetting), names.fixed(sum(seconds) / len(seconds), 1)]
        rows.append(line)
        if found.estimate and not row.bound:
            means[len(rows) - 1] = found.estimate.mean
    if len(means) > 1:  # bold is for the best that learns from the stream
        best = max(means, key=lambda i: means[i])
        rows[best][1] = Bold(rows[best][1])
    columns = headings("method", "Average Accuracy", "the paper", "Average Forgetting", "the paper", "seconds a run")
    title = f"{names.stream(stream)}, {protocol.parse(stream).rules.memory} samples of memory"
    return Table(stream, title, [Part(columns, rows)], ["† not in the paper."])


def one_method(method: str, results: Results) -> Table:
    """A method on every stream that has records of it, with its hyper-parameters."""
    if not any(row.method == method for number in (1, 4) for row in cells.rows(number)):
        return _beyond(method, results)
    rows, absent = [], []
    for number in (1, 4):
        for cell in cells.cells(number, (method,)):
            found = results.of(cell)
            title = names.stream(cell.stream) + (", NCM" if cell.row.name == "ER + NCM" else "")
            if not found.values:
                absent.append(title)
                continue
            lost = Cell(2, cell.row, cell.stream)
            tasks = number == 1 and not cell.row.bound
            forgetting = [theirs(lost), ours(results.of(lost))] if tasks else [NOTHING, NOTHING]
            rows.append([title, theirs(cell), ours(found), *forgetting, _settings(cell)])
    both = [Heading(whose, metric) for metric in ("accuracy", "forgetting") for whose in ("paper", "ours")]
    notes = [
        "Average Accuracy (on Smooth the final accuracy) and Average Forgetting, percent, mean ± half-width of the 95 % "
        f"interval over {numbers.RUNS} seeds."
    ]
    notes += [f"Not run: {'; '.join(absent)}."] if absent else []
    part = Part([Heading("stream"), *both, Heading("at")], rows)
    return Table(f"method-{method}", names.METHODS.get(method, method), [part], notes)


def step_times(results: Results) -> Table:
    """A training step of each method alone, and its ratio to ER's, for both image sizes of Figure 4."""
    sizes = [lines for stream in times.SHAPES if (lines := times.on_one_device(results.times, stream))]
    columns, devices = [Heading("method")], []
    for lines in sizes:
        first = next(iter(lines.values()))
        columns += [
            Heading("ms per step", f"images of {times.images(first)}"),
            Heading("× ER's", f"images of {times.images(first)}"),
        ]
        devices.append(f"{times.images(first)}: {first['device']}")
    rows = []
    for method in times.methods():
        line = [names.METHODS[method]]
        for lines in sizes:
            known, usual = lines.get(method), lines.get("er")
            line.append("not timed" if known is None else names.fixed(known["step_ms"]))
            line.append(NOTHING if known is None or usual is None else names.fixed(known["step_ms"] / usual["step_ms"]))
        rows.append(line)
    notes = (
        [f"One run alone, a memory of {results.times[0]['memory']} and 100 classes. {'; '.join(devices)}."]
        if sizes
        else ["Not timed yet."]
    )
    return Table("step-times", "A training step of each method alone", [Part(columns, rows)], notes)


def _beyond(method: str, results: Results) -> Table:
    """A method that is no row of the paper's tables: its rows of the tracks, with the streams they were run on."""
    rows = []
    for row in (row for row in beyond.known_rows() if row.method == method):
        for stream in (s for s in (*beyond.STREAMS, *beyond.ALSO) if row.on(s)):
            for reading in (r for r in beyond_readings.of_row(results, row, stream) if r.accuracy):
                lost = NOTHING if reading.forgetting is None else with_runs(reading.forgetting)
                rows.append([names.stream(stream), row.track, row.label, ours(reading.runs), lost])
    notes = [
        "Average Accuracy (on Smooth the final accuracy) and Average Forgetting on test images, percent, mean ± half-width of "
        f"the 95 % interval over {numbers.RUNS} seeds."
    ]
    part = Part(headings("stream", "track", "learner", "accuracy", "forgetting"), rows)
    return Table(f"method-{method}", names.METHODS.get(method, method), [part], notes if rows else ["Not run yet."])


def _settings(cell: Cell) -> str:
    """The hyper-parameters that are searched or that the recipe names; the others are the same everywhere."""
    spec, name = cell.spec(), protocol.parse(cell.runs_on)
    named = recipes.recipe(spec.method, cell.row.loss, name.kind, name.dataset)
    options = spec.choice().every_option()
    return names.settings({option: options[option] for option in [*grids.grid(spec.method, cell.row.loss), *named]})
