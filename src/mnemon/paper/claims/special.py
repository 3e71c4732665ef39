"""The claims that are of no kind: a function each, from results to a verdict with its numbers."""

from __future__ import annotations

import numpy as np

from mnemon.experiments.spec import Spec
from mnemon.experiments.stats import Estimate, estimate, paired_difference
from mnemon.paper import bias, cells, memory_sizes, times
from mnemon.paper.cells import Cell, ablation, row
from mnemon.paper.claims.kinds import baselines
from mnemon.paper.claims.verdicts import CONFIRMED, CONTRADICTED, DEPENDS, Case, Finding, above, below, points, verdict
from mnemon.paper.results import LEAST, Absent, Results, judged
from mnemon.render import names

NEARLY_FREE = 10  # percent more test time, at most
WILDER = 2  # times the standard deviation over seeds, at least
SAME_DATASET = ("split-cifar10", "split-cifar100-10", "split-mini_imagenet-10")  # as the Smooth streams, in their order
ALMOST = 0.9  # of the points of a stream, at least


def new_logits_dominate(results: Results) -> Finding:
    lines, runs = bias.mean_logits(results)
    later = range(1, len(lines))
    first = sum(int(np.argmax(lines[k, : k + 1])) == k for k in later)
    gap = np.mean([lines[k, k] - np.mean(lines[k, :k]) for k in later])
    said = f"ER, Split CIFAR-10: the newest task has the highest mean logit after {first} of {len(later)} tasks, "
    said += f"{names.fixed(float(gap))} above the mean of the older ones ({names.plural(runs, 'run')})"
    return Finding(CONFIRMED if first == len(later) else DEPENDS if gap > 0 else CONTRADICTED, said)


def ms_degrades(results: Results) -> Finding:
    """Against the hybrid, since the streams differ in more than the classes of a batch."""
    ms, hybrid = ablation("MS + NCM (normalised)"), ablation("hybrid + NCM (normalised)")
    two, five = (results.difference(ms, hybrid, stream) for stream in cells.ABLATION_STREAMS)
    said = "MS minus hybrid: "
    said += f"{points(two)} points with 2 classes a batch (CIFAR-10), {points(five)} with up to 5 (CIFAR-100, 20 tasks)"
    apart = five.mean + (five.half or 0.0) < two.mean - (two.half or 0.0)
    return Finding(verdict([below(five), apart if below(five) else below(five)]), said)


def best_all_along(results: Results) -> Finding:
    """By the mean accuracy on the tasks learned so far, after each task."""
    said, cases, whole = [], [], True
    rivals = baselines(1)
    for stream in cells.SPLIT_STREAMS:
        hybrid, *others = (results.of(Cell(1, each, stream)).matrices for each in (row("hybrid"), *rivals))
        run = [np.nanmean(each, 2).mean(0) for each in others if each is not None]
        whole &= len(run) == len(rivals) and hybrid is not None
        if hybrid is None or not run:
            continue
        best = np.nanmean(hybrid, 2).mean(0) > np.max(run, 0)
        cases.append(bool(best.mean() >= ALMOST))
        of = f"after {best.sum()} of {len(best)} tasks ({len(run)} of {len(rivals)} baselines run)"
        said.append(f"{names.stream(stream)}: {of}")
    if not said:
        raise Absent("hybrid and a baseline on a Split stream")
    return Finding(verdict(cases, whole), "hybrid has the highest mean: " + "; ".join(said))


def worse_on_smooth(results: Results) -> Finding:
    """Beside what i.i.d. training loses, which has no order of classes that could cost it anything."""
    said, cases, whole = [], [], True
    for smooth, split in zip(cells.SMOOTH_STREAMS, SAME_DATASET, strict=True):
        lost = {}
        for each in (row("er", "softmax"), row("mir"), row("iid-online")):
            there, here = results.of(Cell(4, each, smooth)).values, results.of(Cell(1, each, split)).values
            if (by := paired_difference(there, here)) and by.n >= LEAST:
                lost[each] = by
        baselines_here = [below(by) for each, by in lost.items() if not each.bound]
        whole &= len(baselines_here) == 2
        if baselines_here:
            cases += baselines_here
            losses = ", ".join(f"{each.short_name} {points(by)}" for each, by in lost.items())
            said.append(f"{names.stream(smooth)} minus {names.stream(split)}: {losses}")
    if not said:
        raise Absent("ER or MIR on a Smooth stream and on the Split stream of its dataset")
    return Finding(verdict(cases, whole), "points: " + "; ".join(said))


def ce_is_unstable(results: Results) -> Finding:
    """On validation samples, as η is chosen."""
    said: list[str] = []
    cases: list[Case] = []
    for stream in ("split-mnist", "split-cifar10"):
        by_rate = {rate: _at(results, stream, rate) for rate in (0.05, 0.1, 0.15, 0.2)}
        known = {rate: found for rate, found in by_rate.items() if len(found) >= LEAST}
        if 0.2 not in known or len(known) < 2:
            continue
        best = max(known, key=lambda rate: np.mean(list(known[rate].values())))
        if best == 0.2:
            cases.append(False)
            said.append(f"{names.stream(stream)}: 0.2 is the best η")
            continue
        by = judged(paired_difference(known[0.2], known[best]), stream)
        here, there = (float(np.std(list(known[rate].values()), ddof=1)) for rate in (0.2, best))
        cases.append(here >= WILDER * there or below(by))
        said.append(
            f"{names.stream(stream)}, validation, η = 0.2 minus η = {best}: {points(by)} points; standard deviation over seeds "
            f"{names.fixed(here)} against {names.fixed(there)}"
        )
    if not said:
        raise Absent("ER at several η on validation samples")
    return Finding(verdict(cases), "; ".join(said))


def _at(results: Results, stream: str, rate: float) -> dict[int, float]:
    """ER's validation accuracy at a learning rate, by seed."""
    there = results.index.like(Spec("er", stream, split="valid", loss="ce", options={"lr": rate}), "softmax")
    return {seed: record["average_accuracy"] for seed, record in there.items()}


def only_the_last_class(results: Results) -> Finding:
    said, right = [], []
    for stream, classes in (("smooth-cifar10", 10), ("smooth-cifar100", 100)):
        found = results.of(Cell(4, row("fine-tune"), stream)).estimate
        if found:
            right.append(abs(found.mean - 100 / classes) <= max(found.half or 0.0, 0.1))
            said.append(f"{names.stream(stream)}: {found} %, one class of {classes} is {100 / classes:g} %")
    if not said:
        raise Absent("fine-tune on Smooth streams")
    return Finding(verdict(right), "; ".join(said))


def ncm_costs_little(results: Results) -> Finding:
    said, shares = [], []
    for stream in times.SHAPES:
        line = times.on_one_device(results.times, stream).get("er")
        # The class means cost the same for few test images as for many: only the size of a real test set counts.
        if line and line["tested"] >= 10_000 and {"softmax", "ncm"} <= line["test_s"].keys():
            share = 100 * (line["test_s"]["ncm"] / line["test_s"]["softmax"] - 1)
            shares.append(share <= NEARLY_FREE)
            said.append(f"{times.images(line)}: {names.fixed(share, 1)} % more than softmax ({line['device']})")
    if not said:
        raise Absent("test times (`mnemon reproduce fig4`)")
    return Finding(verdict(shares), "; ".join(said))


# --- sizes of the memory

OF_SIZES = "hybrid and ER at several memory sizes (`mnemon reproduce fig5`)"


def better_at_every_size(results: Results) -> Finding:
    said, better = [], []
    for stream in memory_sizes.STREAMS:
        gains = {size: estimate(_gain(results, stream, size).values()) for size in memory_sizes.SIZES}
        by = {size: gain for size, gain in gains.items() if gain and gain.n >= LEAST}
        if by:
            better += [above(each) for each in by.values()]
            each_size = ", ".join(f"{points(each)} at {size}" for size, each in by.items())
            said.append(f"{names.stream(stream)}: {each_size}")
    if not said:
        raise Absent(OF_SIZES)
    return Finding(verdict(better), "hybrid minus ER, points on validation, by memory: " + "; ".join(said))


def small_gain_at_500(results: Results) -> Finding:
    gains = {size: _gain(results, "split-cifar100-10", size) for size in (500, 1000, 2000)}
    each: dict[int, Estimate] = {size: judged(estimate(gain.values()), OF_SIZES) for size, gain in gains.items()}
    said = "hybrid minus ER, validation: "
    said += ", ".join(f"{points(gain)} points at {size}" for size, gain in each.items())
    less = {size: judged(paired_difference(gains[500], gains[size]), OF_SIZES) for size in (1000, 2000)}
    said += "; the gain at 500 minus that at " + ", at ".join(f"{size}: {points(by)}" for size, by in less.items())
    return Finding(verdict([below(by) for by in less.values()]), said)


def _gain(results: Results, stream: str, size: int) -> dict[int, float]:
    """Hybrid minus ER with a memory of that size, by seed."""
    hybrid, er = (memory_sizes.accuracies(results, method, stream, size) for method in ("hybrid", "er"))
    return {seed: hybrid[seed] - er[seed] for seed in sorted(hybrid.keys() & er.keys())}
