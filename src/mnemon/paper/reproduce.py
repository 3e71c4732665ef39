"""`mnemon reproduce`: make the runs that are missing, take the others from the records, write tables and figures.

    targets ──► plan: cells, runs, measurements that are missing ──► run ──► OUT/tables, OUT/figures, documents

OUT/records.jsonl    the runs (experiments.runner)         OUT/streams.jsonl  facts of the streams, for Tables 5 and 6
OUT/fig1/            runs made again for their scores      OUT/times.jsonl    times of the methods, for Figure 4
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mnemon import files
from mnemon.errors import Diverged, MnemonError, unknown
from mnemon.experiments import protocol
from mnemon.experiments.progress import Progress
from mnemon.experiments.spec import Spec
from mnemon.learning.methods import methods as all_methods
from mnemon.paper import (
    cells,
    claims,
    device_time,
    documents,
    figures,
    measured,
    ranking,
    results,
    searches,
    sensitivity,
    tables,
    times,
)
from mnemon.paper.cells import Cell
from mnemon.paper.results import Absent, Source
from mnemon.render import markup, names
from mnemon.render.tables import Table

TABLES = tuple(f"table{number}" for number in range(1, 8))
FIGURES = tuple(f"fig{number}" for number in range(1, 6))
TARGETS = (*TABLES, *FIGURES, "ranking", "sensitivity", "all")
FIRST = ("hybrid", "er", "hybrid-ace")  # where time is scarce, these come before the others
STREAMS = tuple(dict.fromkeys((*cells.SPLIT_STREAMS, *cells.SMOOTH_STREAMS, *sensitivity.STREAMS)))
BLOCKS = (  # what a document can ask for
    *TABLES, "claims", "figures", "ranking", "ranking-figure", "device-time", "sensitivity", "searches",
    *cells.SPLIT_STREAMS, *(f"method-{name}" for name in all_methods()),
)  # fmt: skip


@dataclass
class Plan:
    """What a target needs: how much of it is there, and what has to be made."""

    target: str
    what: str  # what is counted
    of: int = 0
    there: int = 0
    runs: list[Spec] = field(default_factory=list)
    again: list[Spec] = field(default_factory=list)  # in OUT/fig1
    streams: list[str] = field(default_factory=list)  # whose facts have to be counted
    timed: list[tuple[str, str]] = field(default_factory=list)  # (method, stream) to be timed
    not_here: set[str] = field(default_factory=set)  # datasets that have to be brought by hand

    def all_there(self) -> Plan:
        """Nothing has to be made for it."""
        self.there = self.of
        return self

    @property
    def to_make(self) -> str:
        """In words."""
        parts = [names.plural(len(self.runs), "run")] * bool(self.runs)
        parts += [f"{names.plural(len(self.again), 'run')} again, for their scores"] * bool(self.again)
        parts += [f"{names.plural(len(self.streams), 'stream')} to count"] * bool(self.streams)
        parts += [f"{names.plural(len(self.timed), 'time')} to take"] * bool(self.timed)
        parts += [f"not run: the dataset {name} is not here" for name in sorted(self.not_here)]
        return "; ".join(parts) or "nothing"


@dataclass
class Work:
    """The targets in a folder."""

    targets: list[str]
    out: Path
    seeds: Sequence[int] = cells.SEEDS
    methods: Sequence[str] = ()  # only runs of these; all where none is named
    streams: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.targets = _targets(self.targets)
        if not set(self.seeds) <= set(cells.SEEDS):
            raise MnemonError(f"the seeds of the tables are 0 to {cells.SEEDS[-1]}.")
        rows = {row.method for number in range(1, 5) for row in cells.rows(number)}
        for method in self.methods:
            if method not in all_methods():
                raise unknown("method", method, all_methods())
            if method not in rows:
                raise MnemonError(
                    f"{method} is no row of the paper's tables; `mnemon run` and `mnemon report --table` compare it with them."
                )
        for stream in self.streams:
            if stream not in STREAMS:
                raise unknown("stream of the paper:", stream, STREAMS)

    def source(self) -> Source:
        """The records as they are now."""
        return results.source(self.out, self.seeds)

    # --- what is there, what is missing

    def plans(self, device: str = "") -> list[Plan]:
        """A plan for each target; `device` is where Figure 4 would be timed."""
        source = self.source()
        return [self._plan(target, source, device) for target in self.targets]

    def _plan(self, target: str, source: Source, device: str) -> Plan:
        if target == "sensitivity":
            return self._studies(target, source)
        if target in ("table1", "table2", "table3", "table4"):
            return self._cells(target, cells.cells(int(target[-1]), self.methods, self.streams), source)
        if target == "ranking":
            return self._ranking(target, source, device)
        if target in ("table5", "table6"):
            return self._streams(target)
        if target == "table7":
            return Plan(target, "streams", len(tables.table(7, source.library).parts[0].rows)).all_there()
        if target == "fig1":
            ways = [results.row("er", "softmax"), results.row("er", "ncm"), results.row("hybrid")]
            plan = self._cells(target, self._only(Cell(1, way, results.BIAS_STREAM) for way in ways), source)
            if self._wanted("er", results.BIAS_STREAM):
                plan.again = results.without_scores(source)
            return plan
        if target == "fig2":
            return Plan(target, "streams", 2).all_there()
        if target == "fig3":
            online = cells.online_rows()
            wanted = (Cell(1, way, stream) for way in online for stream in cells.SPLIT_STREAMS)
            return self._cells(target, self._only(wanted), source)
        return self._times(target, source, device) if target == "fig4" else self._sizes(target, source)

    def _wanted(self, method: str, stream: str) -> bool:
        return (not self.methods or method in self.methods) and (not self.streams or stream in self.streams)

    def _only(self, every: Iterable[Cell]) -> list[Cell]:
        return [cell for cell in every if self._wanted(cell.row.method, cell.stream)]

    def _cells(self, target: str, wanted: list[Cell], source: Source) -> Plan:
        there = sum(len(source.library.of_cell(cell, self.seeds).records) == len(self.seeds) for cell in wanted)
        plan = Plan(target, "cells", len(wanted), there)
        return _with_runs(plan, cells.missing(wanted, source.library, self.seeds))

    def _sizes(self, target: str, source: Source) -> Plan:
        plan, missing = Plan(target, "points"), []
        for stream in results.SIZE_STREAMS:
            for method in ("er", "hybrid"):
                for size in results.SIZES if self._wanted(method, stream) else ():
                    found = results.size_accuracies(source, method, stream, size)
                    missing += [
                        results.size_spec(method, stream, size, seed)
                        for seed in results.SIZE_SEEDS
                        if seed not in found
                    ]
                    plan.of += 1
                    plan.there += len(found) == len(results.SIZE_SEEDS)
        return _with_runs(plan, missing)

    def _studies(self, target: str, source: Source) -> Plan:
        streams = [stream for stream in sensitivity.STREAMS if not self.streams or stream in self.streams]
        there, of = sensitivity.count(source.library, streams)
        missing = sensitivity.missing(source.library, streams)
        wanted = [spec for spec in missing if not self.methods or spec.method in self.methods]
        return _with_runs(Plan(target, "numbers", of, there), wanted)

    def _streams(self, target: str) -> Plan:
        every = cells.SPLIT_STREAMS if target == "table5" else cells.SMOOTH_STREAMS
        known = {line["stream"] for line in measured.read(self.out, measured.STREAMS)}
        missing = [stream for stream in every if stream not in known]
        plan = Plan(target, "streams", len(every), len(every) - len(missing))
        plan.streams = [stream for stream in missing if measured.can_run(stream)]
        plan.not_here = {protocol.parse(stream).dataset for stream in missing if not measured.can_run(stream)}
        return plan

    def _times(self, target: str, source: Source, device: str) -> Plan:
        """Times of two devices say nothing side by side: what is timed on one device is enough, or else goes on on this one."""
        wanted = [(m, s) for s in times.SHAPES for m in times.methods() if self._wanted(m, s)]
        on: dict[str, set[tuple[str, str]]] = {}
        for line in source.times:
            on.setdefault(line["device"], set()).add((line["method"], line["stream"]))
        known = next((timed for timed in on.values() if timed >= set(wanted)), on.get(device, set()))
        plan = Plan(target, "times", len(wanted), sum(pair in known for pair in wanted))
        plan.timed = [pair for pair in wanted if pair not in known]
        return plan

    def _ranking(self, target: str, source: Source, device: str) -> Plan:
        """The methods of Tables 1 and 4 on the streams that have a dataset, and their times."""
        every = [cell for number in (1, 4) for cell in cells.cells(number, self.methods, self.streams)]
        wanted = [cell for cell in every if cell.row.method not in names.UPPER_BOUNDS]
        plan = self._cells(target, wanted, source)
        plan.timed = self._times(target, source, device).timed
        return plan

    # --- making what is missing

    def make(
        self, device: str, *, steps: int | None = None, progress: Progress, say: Callable[[str], None] = print
    ) -> None:
        """Run, count and time what is missing. Runs that diverge are named; their cells then have fewer runs."""
        from mnemon.experiments.runner import run_all
        from mnemon.runtime.device import Engine, choose_device

        where = choose_device(device)
        plans = self.plans(device_name(device))
        self.out.mkdir(parents=True, exist_ok=True)
        for stream in dict.fromkeys(stream for plan in plans for stream in plan.streams):
            measured.add(self.out, measured.STREAMS, [_facts(stream)], ("stream",))
        if runs := _once(plan.runs for plan in plans):
            _tolerant(lambda: run_all(runs, self.out, device=device, progress=progress), say)
        again = [spec for plan in self.plans() for spec in plan.again]  # runs made just now have their scores
        if again:
            _tolerant(lambda: run_all(again, self.out / results.AGAIN, device=device, progress=progress), say)
        with Engine(where).in_use():
            for method, stream in dict.fromkeys(pair for plan in plans for pair in plan.timed):
                setting = times.Setting(
                    stream,
                    times.SHAPES[stream],
                    steps=times.STEPS.get(where.type, times.STEPS["cpu"]) if steps is None else steps,
                    tested=10_000 if where.type == "cuda" else 1000,
                )
                line = times.measure(method, setting, where)
                say(f"{method}, images of {'×'.join(map(str, setting.shape))}: {line['step_ms']:.2f} ms a step")
                measured.add(self.out, measured.TIMES, [line], ("method", "stream", "device"))

    # --- writing

    def write(self) -> list[str]:
        """Write the tables and figures of the targets, from all seeds that are there; a line on each."""
        source, said = results.source(self.out), []
        for target in self.targets:
            if target == "sensitivity":
                said.append(self._write_studies(source))
            elif target in TABLES:
                said.append(self._write_table(block(target, source), self._verdicts(target, source)))
            elif target == "ranking":
                said += [self._write_table(block(target, source), ""), *self._draw(target, source)]
            else:
                said += self._draw(target, source)
        if set(TABLES) <= set(self.targets):
            said.append(self._write_table(claims.check(source), ""))
        return said

    def _write_table(self, table: Table, verdicts: str) -> str:
        folder = self.out / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{table.name}.md"
        files.write(path, f"# {_heading(table)}\n\n{markup.markdown(table)}".encode())
        files.write(path.with_suffix(".tex"), markup.latex(table, command(table)).encode())
        return f"{table.name}: {verdicts}{path} and .tex"

    def _write_studies(self, source: Source) -> str:
        path = self.out / "tables" / "sensitivity.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(
            path, f"# What hangs on the paper's open choices\n\n{sensitivity.markdown(source.library)}".encode()
        )
        return f"sensitivity: {path}"

    def _verdicts(self, target: str, source: Source) -> str:
        """How ours stands to the paper's, in numbers of cells."""
        number = int(target[-1])
        if number > 4:
            return ""
        found = [(cell, source.library.of_cell(cell)) for cell in cells.cells(number) if cell.paper]
        judged = [cells.verdict(cell, there) for cell, there in found]
        run = len(judged) - judged.count("")
        good = "within reach" if number == 2 else "at least 98.5 %"
        return (
            f"{run} of the paper's {len(judged)} cells were run: {judged.count('overlap')} overlap, "
            f"{judged.count('good')} {good}, {judged.count('off')} off; "
        )

    def _draw(self, target: str, source: Source) -> list[str]:
        said = []
        for name in (name for name in figures.FIGURES if name.startswith(target)):
            try:
                path, _ = figures.draw(name, source)
                said.append(f"{name}: {path} and .svg")
            except Absent as why:
                for ending in ("png", "svg"):  # one from other records would say what these do not
                    (self.out / "figures" / f"{name}.{ending}").unlink(missing_ok=True)
                said.append(f"{name}: not drawn, {why}")
        return said


def command(table: Table) -> str:
    """What makes it: claims come with all."""
    return f"mnemon reproduce {table.name if table.name in TARGETS else 'all'}"


def block(name: str, source: Source) -> Table:
    """A table by the name it has in a document: table1 … table7, claims, ranking, a Split stream, or method-NAME."""
    if name in TABLES:
        return tables.table(int(name[-1]), source.library, measured.read(source.out, measured.STREAMS))
    if name == "claims":
        return claims.check(source)
    if name == "ranking":
        return ranking.table(source)
    if name in cells.SPLIT_STREAMS:
        return tables.one_stream(name, source.library)
    if name in BLOCKS and name.startswith("method-"):
        return tables.one_method(name.removeprefix("method-"), source.library)
    raise unknown("table", name, BLOCKS)


def writer(path: Path, source: Source) -> documents.Block:
    """What stands at the marked places of the document at `path`."""

    def written(name: str) -> str:
        if name == "figures":
            return documents.pictures(source.out / "figures", figures.CAPTIONS, path.parent)
        if name == "ranking-figure":
            return documents.picture(source.out / "figures", "ranking", figures.RANKING, path.parent)
        if name == "device-time":
            return device_time.sentence(source)
        if name == "sensitivity":
            return sensitivity.markdown(source.library)
        if name == "searches":
            return searches.markdown(source.out)
        return markup.markdown(tables.compact(block(name, source)))

    return written


def check(paths: Iterable[Path]) -> None:
    """Refuse documents that could not be filled, before anything is run or written."""
    for path in paths:
        for name in documents.names(path):
            if name not in BLOCKS:
                raise unknown("table", name, BLOCKS)


def fill(paths: Iterable[Path], out: Path) -> list[str]:
    """Write the marked places of documents from the records in `out`; a line on each."""
    source, said = results.source(out), []
    for path in paths:
        changed = documents.fill(path, writer(path, source))
        said.append(f"{path}: {'written' if changed else 'up to date'}")
    return said


def device_name(device: str) -> str:
    """As records and times have it."""
    from mnemon.runtime.device import Engine, choose_device

    return Engine(choose_device(device)).name


def commands(plans: Sequence[Plan], out: Path) -> list[str]:
    """What is missing, as one could make it by hand: a command for each training, and how many runs that is; targets may
    share runs."""
    groups: dict[str, list[int]] = {}
    runs = _once(plan.runs for plan in plans)
    for spec in runs:
        groups.setdefault(shlex.join(spec.words()), []).append(spec.seed)
    place = shlex.quote(str(out))
    made = [f"{command} --seeds {names.seeds(seeds)} --out {place}" for command, seeds in groups.items()]
    made += [f"mnemon reproduce {name} --out {place}" for name in ("fig1", "fig4") if _by_itself(name, plans)]
    return made + ([f"# {names.plural(len(runs), 'run')} in all, each made once"] if runs else [])


def _by_itself(target: str, plans: Sequence[Plan]) -> bool:
    """Whether it needs something that is no run of the folder: scores of runs made again, times."""
    return any(plan.target == target and (plan.again or plan.timed) for plan in plans)


def _heading(table: Table) -> str:
    return f"{table.name.replace('table', 'Table ')}: {table.title}" if table.name in TABLES else table.title


def _targets(given: Sequence[str]) -> list[str]:
    if not given:
        raise MnemonError(f"name what to reproduce: {', '.join(TARGETS)}.")
    for target in given:
        if target not in TARGETS:
            raise unknown("target", target, TARGETS)
    return [target for target in TARGETS[:-1] if target in given or "all" in given]


def _with_runs(plan: Plan, missing: Sequence[Spec]) -> Plan:
    plan.runs = [spec for spec in missing if measured.can_run(spec.stream)]
    plan.not_here = {protocol.parse(spec.stream).dataset for spec in missing if not measured.can_run(spec.stream)}
    return plan


def _once(every: Iterable[Sequence[Spec]]) -> list[Spec]:
    """Each run once: first those the paper is about, then dataset by dataset, since few are kept in memory."""
    found: dict[str, Spec] = {}
    for specs in every:
        for spec in specs:
            choice = spec.choice()
            spec = replace(spec, loss=choice.objective.name)
            options = sorted(choice.options().items())
            stream = str(protocol.parse(spec.stream))
            training = str([spec.method, stream, spec.seed, spec.loss, spec.split, spec.order, options])
            known = found.setdefault(training, spec)
            asked = dict.fromkeys((*known.classifiers, *spec.classifiers))  # all of them are read off one training
            found[training] = replace(known, classifiers=tuple(asked))
    rank = {method: place for place, method in enumerate(FIRST)}
    return sorted(
        found.values(), key=lambda spec: (rank.get(spec.method, len(rank)), protocol.parse(spec.stream).dataset)
    )


def _tolerant(make: Callable[[], object], say: Callable[[str], None]) -> None:
    try:
        make()
    except Diverged as error:
        say(str(error))


def _facts(stream: str) -> measured.Line:
    from mnemon import data

    data.load(protocol.parse(stream).dataset)  # fetched where it is not here yet
    return measured.stream_facts(stream)
