"""The paper's tables with ours beside: what stands in each, from records; `render` writes them as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mnemon.experiments import protocol
from mnemon.experiments.recipes import grids, recipes
from mnemon.experiments.spec import Spec
from mnemon.paper import cells, numbers
from mnemon.paper.cells import Cell, Library, Row, Sample
from mnemon.paper.measured import Line
from mnemon.render import names
from mnemon.render.tables import Bold, Column, Part, Table

NOT_RUN, NOTHING, NOT_HERE = "not run", "–", "not available"
MARKS = {"overlap": "✓", "good": "≥", "off": "✗", "": ""}
LESS = {**MARKS, "good": "≤"}  # of forgetting, where less is better
ABOVE = f"≤{cells.MORE_LOST:g}"  # of forgetting: more than the paper's, by so many points at most


def table(number: int, library: Library, streams: Sequence[Line] = ()) -> Table:
    """Table 1 to 7. `streams`: what is known of our streams (measured.py)."""
    if number <= 4:
        return _results(number, library)
    return {5: _split_streams, 6: _smooth_streams}[number](streams) if number < 7 else _chosen()


# --- Tables 1 to 4

TITLES = {
    1: "Average Accuracy on Split streams",
    2: "Average Forgetting on Split streams (lower is better)",
    3: "Average Accuracy by training loss and classifier, everything else as in ER",
    4: "Final accuracy on Smooth streams",
}


def _results(number: int, library: Library) -> Table:
    streams, side_by_side = cells.streams(number), 3 if number == 4 else 2
    groups = [streams[i : i + side_by_side] for i in range(0, len(streams), side_by_side)]
    parts = [_part(number, library, group) for group in groups]
    return Table(f"table{number}", TITLES[number], parts, _notes(number))


def compact(table: Table) -> Table:
    """Without the rows that were not run at all; a note says which."""
    parts, notes = [], []
    for part in table.parts:
        ours_at = [place for place, column in enumerate(part.columns) if column.name == "ours"]
        run = [row for row in part.rows if not ours_at or any(row[place] != NOT_RUN for place in ours_at)]
        parts += [Part(part.columns, run)] if run else []
        if left_out := [row[0].removesuffix(" †") for row in part.rows if row not in run]:
            where = " and ".join(dict.fromkeys(column.over for column in part.columns if column.over))
            notes.append(f"{where}: {'every row' if not run else ', '.join(left_out)}")
    if not notes:
        return table
    return table._replace(parts=parts, notes=[*table.notes, f"Not run: {'; '.join(notes)}."])


def _part(number: int, library: Library, streams: Sequence[str]) -> Part:
    rows = [row for row in cells.rows(number) if not (number == 2 and row.method in names.UPPER_BOUNDS)]
    columns = [Column("", "training + inference" if number == 3 else "method")]
    lines = [[label(row)] for row in rows]
    for stream in streams:
        title = names.stream(stream)
        columns += [Column(title, "paper"), Column(title, "ours"), Column(title, "difference")]
        found = [(Cell(number, row, stream), library.of_cell(Cell(number, row, stream))) for row in rows]
        best = _best(found)
        for line, (cell, there) in zip(lines, found, strict=True):
            written = ours(there)
            if there.values and _online(cell) and names.fixed(there.mean) == best:
                written = Bold(written)
            line += [theirs(cell), written, apart(cell, there)]
    return Part(columns, lines)


def label(row: Row) -> str:
    return row.name if row.paper else f"{row.name} †"


def theirs(cell: Cell) -> str:
    paper = cell.paper
    if paper is None:
        return NOTHING
    quoted = " *" if cell.row.method in numbers.QUOTED else ""
    return f"{names.fixed(paper.mean)} ± {names.fixed(paper.interval)}{quoted}"


def ours(found: Sample) -> str:
    """Mean ± half-width; how many runs, where they are not the paper's fifteen."""
    if not found.values:
        return NOT_RUN
    half = "" if found.half is None else f" ± {names.fixed(found.half)}"
    runs = "" if len(found.values) == numbers.RUNS else f" (n = {len(found.values)})"
    return names.fixed(found.mean) + half + runs


def apart(cell: Cell, found: Sample) -> str:
    """Ours less the paper's, and the mark."""
    by = cells.difference(cell, found)
    if by is None:
        return ""
    return f"{names.signed(by)} {mark(cell, found)}".rstrip()


def mark(cell: Cell, found: Sample) -> str:
    verdict = cells.verdict(cell, found)
    if cell.table != 2:
        return MARKS[verdict]
    more = verdict == "good" and (cells.difference(cell, found) or 0.0) > 0
    return ABOVE if more else LESS[verdict]


def _online(cell: Cell) -> bool:
    return cell.row.method not in names.UPPER_BOUNDS


def _best(found: Sequence[tuple[Cell, Sample]]) -> str | None:
    """The best mean of ours as it is written; none where nothing is compared. The i.i.d. bounds take no part."""
    means = [there.mean for cell, there in found if there.values and _online(cell)]
    if len(means) < 2:
        return None
    choose: Callable[[list[float]], float] = min if found[0][0].table == 2 else max
    return names.fixed(choose(means))


def _notes(number: int) -> list[str]:
    good = (
        f"≤ they do not, and ours is lower; {ABOVE} they do not, and ours is at most {cells.MORE_LOST:g} points above"
        if number == 2
        else "≥ they do not, and ours is at least 98.5 % of the paper's mean"
    )
    notes = [
        f"Percent, mean ± half-width of the 95 % interval over {numbers.RUNS} seeds (n = … where fewer). "
        f"✓ the intervals overlap; {good}; ✗ neither. Bold: the best of ours in a column"
        + ("." if number in (2, 3) else ", the i.i.d. bounds aside."),
        "† not in the paper." + (" * quoted by the paper from the method's own paper." if number in (1, 2) else ""),
    ]
    if number == 1:
        notes.append("i.i.d. runs know no tasks: both numbers of tasks share theirs.")
    if number == 3:
        notes.append(
            "NCM raw: class means of the features as they are. NCM normalised: of the features at unit length. The paper's "
            "row CE + NCM is read as raw, its other NCM rows as normalised."
        )
    return notes


# --- Tables 5 to 7


def _split_streams(known: Sequence[Line]) -> Table:
    keys = ("image", "classes", "train", "valid", "test", "tasks", "per_task")
    heads = (
        "image",
        "classes",
        "train",
        "valid",
        "test",
        "tasks",
        "classes a task",
        "smallest class",
        "largest",
        "memory",
    )
    part = _facts(
        cells.SPLIT_STREAMS, keys, (*keys, "smallest", "largest", "memory"), heads, numbers.SPLIT_STREAMS, known
    )
    notes = [
        "Ours: made for seeds 0 to 14 and counted; the paper does not print the last three columns, except the memory, in its "
        "text (500 on MNIST, 1000 elsewhere). MNIST stays at 28×28: an MLP gains nothing from padding."
    ]
    return Table("table5", "The Split streams", [part], notes)


def _smooth_streams(known: Sequence[Line]) -> Table:
    keys = ("classes", "train", "valid", "test", "mean", "smallest", "largest")
    heads = ("classes", "train", "valid", "test", "mean of a class", "smallest class", "largest", "memory")
    part = _facts(cells.SMOOTH_STREAMS, keys, (*keys, "memory"), heads, numbers.SMOOTH_STREAMS, known)
    notes = ["Smallest and largest class over the streams of seeds 0 to 14."]
    return Table("table6", "The Smooth streams", [part], notes)


def _facts(
    streams: Sequence[str],
    printed: Sequence[str],
    counted: Sequence[str],
    heads: Sequence[str],
    paper: dict[tuple[str, str], str],
    known: Sequence[Line],
) -> Part:
    """Two lines for each stream: the paper's and ours."""
    here = {line["stream"]: line for line in known}
    rows = []
    for stream in streams:
        first = [_figure(paper[stream, key]) if key in printed else NOTHING for key in counted]
        line = here.get(stream)
        second = [_figure(line[key]) for key in counted] if line else [NOT_HERE, *[NOTHING] * (len(counted) - 1)]
        rows += [[names.stream(stream), "paper", *first], ["", "ours", *second]]
    return Part([Column("", "stream"), Column("", ""), *(Column("", head) for head in heads)], rows)


def _figure(value: int | str) -> str:
    written = str(value)
    return names.thousands(int(written)) if written.isdecimal() else written


def _chosen() -> Table:
    """What our runs of the paper's method are made with now."""
    rows = []
    for stream in dict.fromkeys(stream for stream, _ in numbers.CHOSEN):
        now = Spec("hybrid", stream).choice().options()
        paper = [names.number(numbers.CHOSEN[stream, key]) for key in ("gamma", "lr")]
        own = [names.number(now[key]) for key in ("gamma", "lr")]
        rows.append([names.stream(stream), paper[0], own[0], paper[1], own[1], str(now["divisor"])])
    columns = [
        Column("", "stream"),
        Column("γ", "paper"),
        Column("γ", "ours"),
        Column("η", "paper"),
        Column("η", "ours"),
        Column("", "divisor of MS"),
    ]
    notes = ["Split CIFAR-100 and miniImageNet: for both numbers of tasks. The paper does not name the divisor."]
    return Table("table7", "Weight γ of PNCA and learning rate η of the paper's method", [Part(columns, rows)], notes)


# --- the table of the README

SHORT = ("hybrid", "er", "fine-tune", "mir", "gmed-mir", "cope", "hybrid-ace", "iid-online", "iid-offline")


def one_stream(stream: str, library: Library, methods: Sequence[str] = SHORT) -> Table:
    """Some methods on one stream with accuracy, forgetting and seconds: those that have records."""
    rows = []
    for row in sorted(cells.rows(1), key=lambda row: methods.index(row.method) if row.method in methods else -1):
        accuracy, forgetting = Cell(1, row, stream), Cell(2, row, stream)
        found, lost = library.of_cell(accuracy), library.of_cell(forgetting)
        if row.method not in methods or not found.values:
            continue
        bound = row.method in names.UPPER_BOUNDS
        seconds = [sum(r["seconds"].values()) for r in found.records.values()]
        line = [label(row), ours(found), theirs(accuracy), NOTHING if bound else ours(lost)]
        line += [NOTHING if bound else theirs(forgetting), f"{sum(seconds) / len(seconds):.1f}"]
        rows.append([Bold(text) for text in line[:2]] + line[2:] if row.method == "hybrid" else line)
    columns = ["method", "Average Accuracy", "the paper", "Average Forgetting", "the paper", "seconds a run"]
    title = f"{names.stream(stream)}, {protocol.parse(stream).rules.memory} samples of memory"
    return Table(stream, title, [Part([Column("", name) for name in columns], rows)], ["† not in the paper."])


def one_method(method: str, library: Library) -> Table:
    """A method on every stream that has records of it, with the hyper-parameters it stands at."""
    rows, absent = [], []
    for number in (1, 4):
        for cell in cells.cells(number, (method,)):
            found = library.of_cell(cell)
            title = names.stream(cell.stream) + (", NCM" if cell.row.name == "ER + NCM" else "")
            if not found.values:
                absent.append(title)
                continue
            lost = Cell(2, cell.row, cell.stream)
            tasks = number == 1 and method not in names.UPPER_BOUNDS
            forgetting = [theirs(lost), ours(library.of_cell(lost))] if tasks else [NOTHING, NOTHING]
            rows.append([title, theirs(cell), ours(found), *forgetting, _settings(cell)])
    columns = [Column("", "stream"), Column("accuracy", "paper"), Column("accuracy", "ours")]
    columns += [Column("forgetting", "paper"), Column("forgetting", "ours"), Column("", "at")]
    notes = ["Average Accuracy (on Smooth the final accuracy) and Average Forgetting, percent, mean ± half-width of the 95 % "
             f"interval over {numbers.RUNS} seeds."]  # fmt: skip
    notes += [f"Not run: {'; '.join(absent)}."] if absent else []
    return Table(f"method-{method}", names.METHODS.get(method, method), [Part(columns, rows)], notes)


def _settings(cell: Cell) -> str:
    """The hyper-parameters that are searched or that the recipe names; the others are the same everywhere."""
    spec, name = cell.spec(), protocol.parse(cell.runs_on)
    named = recipes.recipe(spec.method, cell.row.loss, name.kind, name.dataset)
    options = spec.choice().every_option()
    return names.settings({option: options[option] for option in [*grids.grid(spec.method, cell.row.loss), *named]})
