"""`mnemon reproduce`: make the runs that are missing, take the others from the records, write tables and figures.

    targets ──► plan: cells, runs, measurements that are missing ──► make ──► OUT/tables, OUT/figures, documents

OUT/records.jsonl    the runs (experiments.runner)         OUT/streams.jsonl  facts of the streams, for Tables 5 and 6
OUT/fig1/            runs made again for their scores      OUT/times.jsonl    times of the methods, for Figure 4
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mnemon.errors import MnemonError, check_known
from mnemon.experiments import protocol
from mnemon.experiments.spec import Spec
from mnemon.learning.methods import methods as all_methods
from mnemon.paper import beyond, cells, documents, sensitivity
from mnemon.paper.plan import Maker, Scope, TargetPlan, each_training_once
from mnemon.paper.results import Results
from mnemon.paper.targets import BLOCKS, TARGETS
from mnemon.paper.targets.target import Target
from mnemon.render import names
from mnemon.runtime.device import Engine, choose_device
from mnemon.runtime.progress import SILENT, Progress

NAMES = (*(target.name for target in TARGETS if target.named), "all")
TABLES = {name for name in NAMES if name.startswith("table")}
FIRST = ("hybrid", "er", "hybrid-ace")  # their runs are made before the others'
STREAMS = tuple(dict.fromkeys((*cells.SPLIT_STREAMS, *cells.SMOOTH_STREAMS, *sensitivity.STREAMS)))


@dataclass
class Reproduction:
    """The targets in a folder."""

    asked: Sequence[str]  # names of targets
    out: Path
    seeds: Sequence[int] = cells.SEEDS
    methods: Sequence[str] = ()  # only runs of these; all where none is named
    streams: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.targets = _targets(self.asked)
        if not set(self.seeds) <= set(cells.SEEDS):
            raise MnemonError(f"the seeds of the tables are 0 to {cells.SEEDS[-1]}.")
        rows = {row.method for number in range(1, 5) for row in cells.rows(number)} | {
            row.method for row in beyond.ROWS
        }
        for method in self.methods:
            check_known("method", method, all_methods())
            if method not in rows:
                raise MnemonError(
                    f"{method} is no row of the paper's tables; `mnemon run` and `mnemon report --table` compare it with them."
                )
        for stream in self.streams:
            check_known("stream of the paper:", stream, STREAMS)

    def plans(self, device: str = "") -> list[TargetPlan]:
        """What is there and what is missing; `device` is the name of the one that times would be measured on."""
        results = Results.read(self.out, self.seeds)
        return [target.plan(self._scope, results, device) for target in self.targets if target.named]

    @property
    def _scope(self) -> Scope:
        return Scope(self.methods, self.streams)

    def make(
        self, device: str, *, pool: str | None = None, steps: int | None = None, progress: Progress = SILENT
    ) -> None:
        """Make what is missing: the runs of all targets together, then the measurements of each."""
        maker, here = Maker(device, progress, pool, steps), device_name(device, pool)
        plans = self.plans(here)
        if runs := _in_order(plans):
            maker.run(runs, self.out)
        # Where nothing was to be run; only now, since a mistake changes nothing.
        self.out.mkdir(parents=True, exist_ok=True)
        measuring = {plan.target for plan in plans if plan.measurements}
        for target in (target for target in self.targets if target.name in measuring):
            # Planned anew: runs that were just made have their scores, and targets share measurements.
            plan = target.plan(self._scope, Results.read(self.out, self.seeds), here)
            if plan.measurements:
                target.make(plan, self.out, maker)

    def write(self) -> list[str]:
        """Write the files of the targets, from all seeds that are there; a line on each."""
        results = Results.read(self.out)
        return [line for target in self.targets for line in target.write(results)]


def _targets(asked: Sequence[str]) -> list[Target]:
    if not asked:
        raise MnemonError(f"name what to reproduce: {', '.join(NAMES)}.")
    for name in asked:
        check_known("target", name, NAMES)
    tables = "all" in asked or set(asked) >= TABLES
    return [t for t in TARGETS if t.name in asked or "all" in asked or (tables and not t.named)]


def _in_order(plans: Iterable[TargetPlan]) -> list[Spec]:
    """The runs of all plans, each training once: first those the paper is about, then dataset by dataset, since few datasets
    are kept in memory."""
    rank = {method: place for place, method in enumerate(FIRST)}
    runs = each_training_once(spec for plan in plans for spec in plan.runs)
    return sorted(runs, key=lambda spec: (rank.get(spec.method, len(rank)), protocol.parse(spec.stream).dataset))


def commands(plans: Sequence[TargetPlan], out: Path) -> list[str]:
    """What is missing as commands: one for each search, for each training and for each target with measurements; and the number
    of runs, since targets may share runs."""
    groups: dict[str, list[int]] = {}
    runs = _in_order(plans)
    for spec in runs:
        groups.setdefault(shlex.join(spec.command()), []).append(spec.seed)
    place = shlex.quote(str(out))
    made = [f"{command} --out {place}" for command in dict.fromkeys(c for plan in plans for c in plan.searches)]
    made += [f"{command} --seeds {names.seeds(seeds)} --out {place}" for command, seeds in groups.items()]
    measuring = dict.fromkeys(plan.measured_by or plan.target for plan in plans if plan.measurements)
    made += [f"mnemon reproduce {target} --out {place}" for target in measuring]
    return made + ([f"# {names.plural(len(runs), 'run')} in all, each made once"] if runs else [])


def device_name(device: str, pool: str | None = None) -> str:
    """As records and times have it; a cluster may have what this machine lacks."""
    try:
        return Engine(choose_device(device)).name
    except MnemonError:
        if pool is None:
            raise
        return Engine(choose_device("auto")).name


# --- documents


def block(name: str, results: Results, beside: Path) -> str:
    """What stands at a marked place of a document in the folder `beside`."""
    check_known("table", name, BLOCKS)
    return BLOCKS[name](results, beside)


def check(paths: Iterable[Path]) -> None:
    """Refuse documents that could not be filled, before anything is run or written."""
    for path in paths:
        for name in documents.names(path):
            check_known("table", name, BLOCKS)


def fill(paths: Iterable[Path], out: Path) -> list[str]:
    """Write the marked places of documents from the records in `out`; a line on each."""
    results, said = Results.read(out), []
    for path in paths:
        changed = documents.fill(path, partial(block, results=results, beside=path.parent))
        said.append(f"{path}: {'written' if changed else 'up to date'}")
    return said
