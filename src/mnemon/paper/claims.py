"""What the paper's text claims, each checked against our records: a small function from records to a verdict with its number.

Differences are between runs with the same seed, which see the same stream. In each case that a claim speaks of, a stream or a
size, it holds (True), does not hold (False), or the 95 % interval of the difference includes zero and nobody knows (None).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mnemon.experiments.metrics import confidence_interval
from mnemon.experiments.spec import Spec
from mnemon.experiments.summary import interval
from mnemon.paper import cells, results, times
from mnemon.paper.cells import Cell, Row, Sample
from mnemon.paper.results import Absent, Source, row
from mnemon.paper.tables import NOT_RUN
from mnemon.render import names
from mnemon.render.tables import Column, Part, Table

CONFIRMED, SO_FAR, DEPENDS = "confirmed", "confirmed so far", "depends"
UNDECIDED, CONTRADICTED = "undecided", "contradicted"
NEARLY_FREE = 10  # percent more test time, at most
A_BIT = 1.15  # times the training time, at most
MARKEDLY = 1.5  # times the training time, at least
CLEARLY = 1.0  # points above ER on CIFAR-100, at least
LEAST = 3  # runs in common that a difference is judged by
WILDER = 2  # times the standard deviation over seeds, at least


class Finding(NamedTuple):
    verdict: str
    numbers: str


class Gap(NamedTuple):
    """A difference over runs with the same seeds."""

    mean: float
    half: float
    runs: int

    @property
    def above(self) -> bool | None:
        """Whether it is above zero; None where the interval includes it."""
        return None if abs(self.mean) <= self.half else self.mean > 0

    @property
    def below(self) -> bool | None:
        return None if self.above is None else not self.above

    def __str__(self) -> str:
        runs = "" if self.runs == len(cells.SEEDS) else f" (n = {self.runs})"
        return f"{names.signed(self.mean)} ± {names.fixed(self.half)}{runs}"


def ablation(name: str) -> Row:
    """A row of Table 3 by its name."""
    return next(r for r in cells.rows(3) if r.name == name)


def gap(source: Source, one: Row, other: Row, stream: str, table: int = 1) -> Gap:
    """`one` less `other`; `table` 2 compares what is forgotten."""
    values = []
    for way in (one, other):
        cell = Cell(table, way, stream)
        there = source.library.of_cell(cell, source.seeds).records
        values.append({seed: record[cell.metric] for seed, record in there.items()})
    return _gap(values[0], values[1], f"{one.name} and {other.name} on {stream}")


def _gap(one: dict[int, float], other: dict[int, float], what: str) -> Gap:
    return _judged(_less(one, other), what)


def _less(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    """Seed by seed."""
    return {seed: one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())}


def _judged(differences: dict[int, float], what: str) -> Gap:
    if len(differences) < LEAST:
        raise Absent(what)
    return Gap(*confidence_interval(list(differences.values())), len(differences))


def verdict(cases: Sequence[bool | None], whole: bool = True) -> str:
    """`whole`: all methods that the claim speaks of were run."""
    if all(cases):
        return CONFIRMED if whole else SO_FAR
    return DEPENDS if any(cases) else CONTRADICTED if False in cases else UNDECIDED


def every(cases: Sequence[bool | None]) -> bool | None:
    """Of a case that is several comparisons: whether all of them hold."""
    return False if False in cases else None if None in cases else True


# --- the claims


def new_logits_dominate(source: Source) -> Finding:
    lines, runs = results.bias(source)
    later = range(1, len(lines))
    first = sum(int(np.argmax(lines[k, : k + 1])) == k for k in later)
    above = np.mean([lines[k, k] - np.mean(lines[k, :k]) for k in later])
    said = f"ER, Split CIFAR-10: the newest task has the highest mean logit after {first} of {len(later)} tasks, "
    said += f"{names.fixed(float(above))} above the mean of the older ones ({names.plural(runs, 'run')})"
    return Finding(CONFIRMED if first == len(later) else DEPENDS if above > 0 else CONTRADICTED, said)


def ncm_helps_on_cifar10(source: Source) -> Finding:
    by = gap(source, ablation("CE + NCM (raw)"), ablation("CE + softmax"), "split-cifar10")
    more = gap(source, ablation("CE + NCM (normalised)"), ablation("CE + softmax"), "split-cifar10")
    return Finding(verdict([by.above]), f"{by} points raw, {more} normalised")


def ncm_does_not_help_on_cifar100(source: Source) -> Finding:
    by = gap(source, ablation("CE + NCM (raw)"), ablation("CE + softmax"), "split-cifar100-20")
    more = gap(source, ablation("CE + NCM (normalised)"), ablation("CE + softmax"), "split-cifar100-20")
    return Finding(verdict([not by.above]), f"{by} points raw, {more} normalised (20 tasks)")


def ms_degrades(source: Source) -> Finding:
    """Against the hybrid, since the streams differ in more than the classes of a batch."""
    ms, hybrid = ablation("MS + NCM (normalised)"), ablation("hybrid + NCM (normalised)")
    two, five = (gap(source, ms, hybrid, stream) for stream in cells.ABLATION_STREAMS)
    said = f"MS less hybrid: {two} points with 2 classes a batch (CIFAR-10), {five} with up to 5 (CIFAR-100, 20 tasks)"
    apart = five.mean + five.half < two.mean - two.half
    return Finding(verdict([five.below, apart if five.below else five.below]), said)


def ncm_beats_proxies(source: Source) -> Finding:
    one, other = ablation("hybrid + NCM (normalised)"), ablation("hybrid + proxy")
    by = [gap(source, one, other, stream) for stream in cells.ABLATION_STREAMS]
    said = f"NCM less proxies: {by[0]} points on CIFAR-10, {by[1]} on CIFAR-100 (20 tasks)"
    return Finding(verdict([each.above for each in by]), said)


def ms_is_critical(source: Source) -> Finding:
    one, other = ablation("hybrid + NCM (normalised)"), ablation("PNCA + NCM (normalised)")
    by = [gap(source, one, other, stream) for stream in cells.ABLATION_STREAMS]
    said = f"hybrid less PNCA alone, both with NCM: {by[0]} points on CIFAR-10, {by[1]} on CIFAR-100 (20 tasks)"
    return Finding(verdict([each.above for each in by]), said)


def ce_is_unstable(source: Source) -> Finding:
    """On validation samples, as η is chosen."""
    said: list[str] = []
    cases: list[bool | None] = []
    for stream in ("split-mnist", "split-cifar10"):
        by_rate = {rate: _at(source, stream, rate) for rate in (0.05, 0.1, 0.15, 0.2)}
        known = {rate: found for rate, found in by_rate.items() if len(found) >= LEAST}
        if 0.2 not in known or len(known) < 2:
            continue
        best = max(known, key=lambda rate: np.mean(list(known[rate].values())))
        if best == 0.2:
            cases.append(False)
            said.append(f"{names.stream(stream)}: 0.2 is the best η")
            continue
        by = _gap(known[0.2], known[best], stream)
        here, there = (float(np.std(list(known[rate].values()), ddof=1)) for rate in (0.2, best))
        cases.append(here >= WILDER * there or by.below)
        said.append(
            f"{names.stream(stream)}, validation, η = 0.2 less η = {best}: {by} points; standard deviation over seeds "
            f"{names.fixed(here)} against {names.fixed(there)}"
        )
    if not said:
        raise Absent("ER at several η on validation samples")
    return Finding(verdict(cases), "; ".join(said))


def _at(source: Source, stream: str, rate: float) -> dict[int, float]:
    """ER's validation accuracy at a learning rate, by seed."""
    there = source.library.like(Spec("er", stream, split="valid", loss="ce", options={"lr": rate}), "softmax")
    return {seed: record["average_accuracy"] for seed, record in there.items()}


def only_the_last_class(source: Source) -> Finding:
    said, right = [], []
    for stream, classes in (("smooth-cifar10", 10), ("smooth-cifar100", 100)):
        found = source.library.of_cell(Cell(4, row("fine-tune"), stream), source.seeds)
        if found.values:
            right.append(abs(found.mean - 100 / classes) <= max(found.half or 0.0, 0.1))
            said.append(
                f"{names.stream(stream)}: {interval(found.values)} %, one class of {classes} is {100 / classes:g} %"
            )
    if not said:
        raise Absent("fine-tune on Smooth streams")
    return Finding(verdict(right), "; ".join(said))


def best_of_all(source: Source) -> Finding:
    """The paper's six settings: its Table 1."""
    return _best(source, 1)


def best_on_smooth(source: Source) -> Finding:
    return _best(source, 4)


def _best(source: Source, table: int) -> Finding:
    """Against the methods of the paper's table that were run."""
    said, best, whole = [], [], True
    rivals = baselines(table)
    for stream in cells.streams(table):
        run = [(found.mean, way) for way in rivals if (found := _enough(source, table, way, stream))]
        if run and _enough(source, table, row("hybrid"), stream):
            rival = max(run, key=lambda pair: pair[0])[1]
            try:
                by = gap(source, row("hybrid"), rival, stream, table)
            except Absent:
                continue
            best.append(by.above)
            whole &= len(run) == len(rivals)
            of = f"{len(run)} of {len(rivals)} baselines run"
            said.append(f"{names.stream(stream)}: {by} points over {rival.name} ({of})")
    kind = "Split" if table == 1 else "Smooth"
    if not said:
        raise Absent(f"hybrid and a baseline on a {kind} stream")
    return Finding(
        verdict(best, whole), "; ".join(said) + f"; {len(said)} of the paper's {len(cells.streams(table))} streams"
    )


def baselines(table: int) -> list[Row]:
    """The methods of the paper's table that it compares its own with."""
    return [way for way in cells.rows(table) if way.paper and way.method not in (*names.UPPER_BOUNDS, "hybrid")]


def _enough(source: Source, table: int, way: Row, stream: str) -> Sample | None:
    """The runs of a cell, where there are enough to judge by."""
    found = source.library.of_cell(Cell(table, way, stream), source.seeds)
    return found if len(found.values) >= LEAST else None


def gmed_mir_is_competitive(source: Source) -> Finding:
    """Competitive: hybrid is not better by more than the interval."""
    by = gap(source, row("hybrid"), row("gmed-mir"), "split-mnist")
    return Finding(verdict([not by.above]), f"hybrid less GMED-MIR: {by} points")


def nobody_above_er(source: Source) -> Finding:
    """ASER, which the paper excepts, is named where it was run."""
    er = row("er", "softmax")
    asked = [way for way in baselines(1) if way.method not in ("fine-tune", "er", "aser")]
    said, below, whole = [], [], True
    for stream in ("split-cifar100-10", "split-cifar100-20"):
        gaps = _gaps(source, asked, er, stream)
        if not gaps:
            continue
        best = max(gaps, key=lambda name: gaps[name].mean)
        whole &= len(gaps) == len(asked)
        below.append(not any(by.above and by.mean >= CLEARLY for by in gaps.values()))
        said.append(
            f"{names.stream(stream)}: the best is {best}, {gaps[best]} points over ER ({len(gaps)} of {len(asked)} run)"
        )
        said += [f"ASER {by}" for by in _gaps(source, [row("aser")], er, stream).values()]
    if not said:
        raise Absent(f"ER and one of {', '.join(way.name for way in asked)} on Split CIFAR-100")
    return Finding(verdict(below, whole), "; ".join(said))


def _gaps(source: Source, ways: Sequence[Row], other: Row, stream: str, table: int = 1) -> dict[str, Gap]:
    """Name → the way less `other`, of those that were run."""
    found = {}
    for way in ways:
        try:
            found[way.name] = gap(source, way, other, stream, table)
        except Absent:
            continue
    return found


def forgets_less(source: Source) -> Finding:
    said, less = [], []
    for stream in cells.SPLIT_STREAMS:
        try:
            by = gap(source, row("hybrid"), row("er", "softmax"), stream, table=2)
        except Absent:
            continue
        less.append(by.below)
        said.append(f"{names.stream(stream)}: {by}")
    if not said:
        raise Absent("hybrid and ER on a Split stream")
    return Finding(verdict(less), "hybrid less ER, points: " + "; ".join(said))


def forgets_less_than_softmax(source: Source) -> Finding:
    """MNIST, which the paper excepts, is told but not judged."""
    asked = [way for way in baselines(2) if way.classifier == "softmax"]
    said, less, whole = [], [], True
    for stream in cells.SPLIT_STREAMS:
        gaps = {
            name: Gap(-by.mean, by.half, by.runs) for name, by in _gaps(source, asked, row("hybrid"), stream, 2).items()
        }
        if not gaps:
            continue
        least = max(gaps, key=lambda name: gaps[name].mean)
        whole &= len(gaps) == len(asked)
        less += [every([by.below for by in gaps.values()])] if stream != "split-mnist" else []
        told = f"{names.stream(stream)}: {gaps[least]} to {least} ({len(gaps)} of {len(asked)} run)"
        said.append(told + (", not judged" if stream == "split-mnist" else ""))
    if not less:
        raise Absent("hybrid and a softmax baseline on a Split stream of CIFAR or miniImageNet")
    return Finding(verdict(less, whole), "hybrid less the softmax method nearest to it, points: " + "; ".join(said))


def ncm_costs_little(source: Source) -> Finding:
    said, shares = [], []
    for stream in times.SHAPES:
        line = times.on_one_device(source.times, stream).get("er")
        # The class means cost the same for few test images as for many: only the size of a real test set counts.
        if line and line["tested"] >= 10_000 and {"softmax", "ncm"} <= line["test_s"].keys():
            share = 100 * (line["test_s"]["ncm"] / line["test_s"]["softmax"] - 1)
            shares.append(share <= NEARLY_FREE)
            said.append(f"{_images(line)}: {names.fixed(share, 1)} % more than softmax ({line['device']})")
    if not said:
        raise Absent("test times (`mnemon reproduce fig4`)")
    return Finding(verdict(shares), "; ".join(said))


def training_costs_little(source: Source) -> Finding:
    said, shares = [], []
    for stream in times.SHAPES:
        lines = times.on_one_device(source.times, stream)
        if {"er", "hybrid"} <= lines.keys():
            ratio = lines["hybrid"]["step_ms"] / lines["er"]["step_ms"]
            shares.append(ratio <= A_BIT)
            said.append(f"{_images(lines['er'])}: {names.fixed(ratio)} × ER ({lines['er']['device']})")
    if not said:
        raise Absent("training times (`mnemon reproduce fig4`)")
    return Finding(verdict(shares), "; ".join(said))


def others_are_slow(source: Source) -> Finding:
    asked = ("gss", "mir", "gmed-er", "gmed-mir")
    said, slow = [], []
    for stream in times.SHAPES:
        lines = times.on_one_device(source.times, stream)
        timed = {method: lines[method]["step_ms"] for method in asked if method in lines}
        if "er" not in lines or not timed:
            continue
        ratios = {names.METHODS[method]: time / lines["er"]["step_ms"] for method, time in timed.items()}
        slow += [ratio >= MARKEDLY for ratio in ratios.values()]
        each = ", ".join(f"{name} {names.fixed(ratio)} ×" for name, ratio in ratios.items())
        said.append(
            f"{_images(lines['er'])}: {each} ER's step ({len(ratios)} of {len(asked)} timed, {lines['er']['device']})"
        )
    if not said:
        raise Absent("training times of GSS, MIR or GMED (`mnemon reproduce fig4`)")
    return Finding(verdict(slow), "; ".join(said))


def _images(line: dict[str, list[int]]) -> str:
    return "×".join(str(side) for side in line["shape"])


OF_SIZES = "hybrid and ER at several memory sizes (`mnemon reproduce fig5`)"


def better_at_every_size(source: Source) -> Finding:
    said, better = [], []
    for stream in results.SIZE_STREAMS:
        gains = {size: _gain(source, stream, size) for size in results.SIZES}
        by = {size: _judged(gain, stream) for size, gain in gains.items() if len(gain) >= LEAST}
        if by:
            better += [each.above for each in by.values()]
            said.append(f"{names.stream(stream)}: " + ", ".join(f"{each} at {size}" for size, each in by.items()))
    if not said:
        raise Absent(OF_SIZES)
    return Finding(verdict(better), "hybrid less ER, points on validation, by memory: " + "; ".join(said))


def small_gain_at_500(source: Source) -> Finding:
    gains = {size: _gain(source, "split-cifar100-10", size) for size in (500, 1000, 2000)}
    said = "hybrid less ER, validation: "
    said += ", ".join(f"{_judged(gain, OF_SIZES)} points at {size}" for size, gain in gains.items())
    less = {size: _gap(gains[500], gains[size], OF_SIZES) for size in (1000, 2000)}
    said += "; the gain at 500 less that at " + ", at ".join(f"{size}: {by}" for size, by in less.items())
    return Finding(verdict([by.below for by in less.values()]), said)


def _gain(source: Source, stream: str, size: int) -> dict[int, float]:
    """Hybrid less ER at a size of the memory, by seed."""
    hybrid, er = (results.size_accuracies(source, method, stream, size) for method in ("hybrid", "er"))
    return _less(hybrid, er)


RULES = (
    "Differences are over runs with the same seed, mean ± half-width of the 95 % interval over 15 of them (n = … where fewer). "
    "In each case that a claim speaks of, a stream or a size, it holds or does not hold where the interval excludes zero. "
    f"Confirmed: it holds in all; so far: not all methods were run; {DEPENDS}: in some; {CONTRADICTED}: in none, and in some "
    f"the opposite holds; {UNDECIDED}: no interval excludes zero. That nothing helps, or that a baseline is competitive, holds "
    f"unless the interval says otherwise. About 3 % of test time is up to {NEARLY_FREE} %, a bit longer training up to {A_BIT} "
    f"times, markedly longer from {MARKEDLY} times on, clearly above ER from {CLEARLY:g} point on, unstable a worse mean or "
    f"{WILDER} times the standard deviation, only the last class an interval (or 0.1 points) around its share."
)

CLAIMS: dict[str, Callable[[Source], Finding]] = {
    "Under softmax the logits of the newest classes dominate": new_logits_dominate,
    "The method is better than every baseline on every Split stream": best_of_all,
    "On MNIST GMED-MIR is competitive with it": gmed_mir_is_competitive,
    "It is the best on every Smooth stream": best_on_smooth,
    "No baseline but ASER is clearly above ER on CIFAR-100": nobody_above_er,
    "It forgets far less than ER": forgets_less,
    "It forgets far less than every softmax method, except on MNIST": forgets_less_than_softmax,
    "NCM instead of softmax helps cross-entropy on CIFAR-10": ncm_helps_on_cifar10,
    "NCM does not help cross-entropy on CIFAR-100": ncm_does_not_help_on_cifar100,
    "MS alone degrades as the classes of a batch grow": ms_degrades,
    "With the hybrid loss, NCM beats its own proxies": ncm_beats_proxies,
    "MS is critical for NCM (PNCA alone is worse)": ms_is_critical,
    "Cross-entropy is unstable at η = 0.2": ce_is_unstable,
    "On Smooth streams fine-tune knows only the last class": only_the_last_class,
    "NCM costs about 3 % of test time": ncm_costs_little,
    "Training takes only a bit longer than ER": training_costs_little,
    "GSS, MIR and GMED take markedly longer than ER": others_are_slow,
    "It is better than ER at every size of the memory": better_at_every_size,
    "The gain is small at memory 500 on CIFAR-100": small_gain_at_500,
}


def check(source: Source) -> Table:
    """Every claim with its verdict and number."""
    rows = []
    for claim, judge in CLAIMS.items():
        try:
            found = judge(source)
        except Absent as why:
            found = Finding(NOT_RUN, f"needs {why}" if not str(why).startswith("no ") else str(why))
        rows.append([claim, found.verdict, found.numbers])
    columns = [Column("", "the paper says"), Column("", "our records"), Column("", "number")]
    return Table("claims", "What the paper's text claims", [Part(columns, rows)], [RULES])
