"""The kinds of claims. A claim of a kind is an entry in entries.py: what is compared, the rule, and how it is written.

Differences are between runs with the same seed, which see the same stream. Where records are missing, `judge` raises `Absent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from mnemon.experiments.stats import Estimate
from mnemon.paper import cells, comparison, times
from mnemon.paper.cells import Cell, Row, row
from mnemon.paper.claims.verdicts import Case, Finding, above, every, points, verdict
from mnemon.paper.results import Absent, Results
from mnemon.render import names

Rule = Callable[[Estimate], Case]


class Claim(Protocol):
    """What the paper says, and what our records say about it."""

    @property
    def text(self) -> str: ...

    def judge(self, results: Results) -> Finding: ...


class Special(NamedTuple):
    """A claim with a function of its own."""

    text: str
    function: Callable[[Results], Finding]

    def judge(self, results: Results) -> Finding:
        return self.function(results)


class Differences(NamedTuple):
    """Paired differences that are all needed; the rule holds for the first ones or for all."""

    text: str
    pairs: tuple[tuple[Row, Row, str], ...]  # one minus other on a stream
    rule: Rule
    written: str  # with {} for each difference
    judged: int | None = None  # how many of them; None: all

    def judge(self, results: Results) -> Finding:
        found = [results.difference(*pair) for pair in self.pairs]
        apart = dict.fromkeys(
            said
            for one, other, stream in self.pairs[: self.judged]
            for each in (one, other)
            if (said := _not_reproduced(results, each, stream, 3 if each in cells.rows(3) else 1))
        )
        said = ", where ".join([self.written.format(*map(points, found)), *([" and ".join(apart)] if apart else [])])
        return Finding(verdict([self.rule(each) for each in found[: self.judged]]), said)


class Best(NamedTuple):
    """The paper's method against the best of the baselines of a table that were run, on each of its streams."""

    text: str
    table: int
    kind: str  # of the streams

    def judge(self, results: Results) -> Finding:
        said, cases, whole = [], [], True
        rivals, hybrid, streams = baselines(self.table), row("hybrid"), cells.streams(self.table)
        for stream in streams:
            judged = {rival: results.of(Cell(self.table, rival, stream)).judged for rival in rivals}
            means = {rival: found.mean for rival, found in judged.items() if found}
            if not means or not results.of(Cell(self.table, hybrid, stream)).judged:
                whole = False
                continue
            best = max(means, key=lambda rival: means[rival])
            for by in _run(results, [hybrid], best, stream, self.table).values():
                cases.append(above(by))
                whole &= len(means) == len(rivals)
                run = f"{len(means)} of {len(rivals)} baselines run"
                said.append(f"{names.stream(stream)}: {points(by)} points over {best.name} ({run})")
                if apart := _not_reproduced(results, best, stream, self.table):
                    said[-1] += f", where {apart}"
        if not said:
            raise Absent(f"hybrid and a baseline on a {self.kind} stream")
        of = f"{len(cases)} of the paper's {len(streams)} streams"
        return Finding(verdict(cases, whole), f"{'; '.join(said)}; {of}")


class OnEachStream(NamedTuple):
    """Rows against one other, on each stream where some of them were run: the rule holds for all of them."""

    text: str
    rows: tuple[Row, ...]
    other: Row
    streams: tuple[str, ...]
    table: int  # 2: of forgetting
    rule: Rule  # of a row minus the other
    written: str  # with {name} and {points} of the row nearest to breaking the rule, and {run}: how many were run
    needs: str
    nearest: Callable[..., str] = max  # or min: of the differences
    sign: int = 1  # −1: written as the other minus the row
    prefix: str = ""
    unjudged: tuple[str, ...] = ()  # streams that the claim excepts
    beside: tuple[Row, ...] = ()  # rows that the claim excepts

    def judge(self, results: Results) -> Finding:
        said: list[str] = []
        cases: list[Case] = []
        whole = True
        for stream in self.streams:
            found = _run(results, self.rows, self.other, stream, self.table)
            if not found:
                whole = False
                continue
            whole &= len(found) == len(self.rows)
            name = self.nearest(found, key=lambda name: found[name].mean)
            by = found[name]._replace(mean=self.sign * found[name].mean)
            run = f"{len(found)} of {len(self.rows)} run"
            said.append(f"{names.stream(stream)}: {self.written.format(name=name, points=points(by), run=run)}")
            if stream in self.unjudged:
                said[-1] += ", not judged"
            else:
                cases.append(every([self.rule(each) for each in found.values()]))
                compared = next(each for each in self.rows if each.name == name)
                pair = (_not_reproduced(results, each, stream, self.table) for each in (compared, self.other))
                if apart := " and ".join(filter(None, pair)):
                    said[-1] += f", where {apart}"
            beside = _run(results, self.beside, self.other, stream, self.table)
            said += [f"{name} {points(each)}" for name, each in beside.items()]
        if not cases:
            raise Absent(self.needs)
        return Finding(verdict(cases, whole), self.prefix + "; ".join(said))


class StepTimes(NamedTuple):
    """The times of a training step relative to ER's, for each shape of images."""

    text: str
    methods: tuple[str, ...]
    holds: Callable[[float], bool]  # of a ratio
    written: str  # with {ratios}, {timed} and {device}
    needs: str

    def judge(self, results: Results) -> Finding:
        said, cases = [], []
        for stream in times.SHAPES:
            lines = times.on_one_device(results.times, stream)
            if "er" not in lines or not (timed := [m for m in self.methods if m in lines]):
                continue
            ratios = {names.METHODS[m]: lines[m]["step_ms"] / lines["er"]["step_ms"] for m in timed}
            cases += [self.holds(ratio) for ratio in ratios.values()]
            one = len(self.methods) == 1
            each = ", ".join(f"{'' if one else f'{name} '}{names.fixed(ratio)} ×" for name, ratio in ratios.items())
            of = f"{len(ratios)} of {len(self.methods)} timed"
            said.append(
                f"{times.images(lines['er'])}: {self.written.format(ratios=each, timed=of, device=lines['er']['device'])}"
            )
        if not said:
            raise Absent(self.needs)
        return Finding(verdict(cases), "; ".join(said))


def baselines(table: int) -> list[Row]:
    """The methods of the paper's table that it compares its own with."""
    return [row for row in cells.rows(table) if row.paper and not row.bound and row.method != "hybrid"]


def _not_reproduced(results: Results, each: Row, stream: str, table: int) -> str:
    """Of a baseline that a verdict rests on: that its number does not agree with the paper's; "" where it does, where it has
    too few runs, or where the paper has none. The paper's own method is what the claim is about, and its gaps stand in its
    tables."""
    cell = Cell(table, each, stream)
    found = results.of(cell)
    said = comparison.verdict(cell, found)
    by = comparison.difference(cell, found)
    if each.method == "hybrid" or by is None or said in ("", comparison.AGREES, comparison.TOO_FEW):
        return ""
    what = "forgetting" if table == 2 else "accuracy"
    return f"the {what} of {each.name} is {names.fixed(abs(by))} {said} the paper's"


def _run(results: Results, rows: Sequence[Row], other: Row, stream: str, table: int) -> dict[str, Estimate]:
    """Name → the row minus `other`, of the rows that were run."""
    found = {}
    for each in rows:
        try:
            found[each.name] = results.difference(each, other, stream, table)
        except Absent:
            continue
    return found
