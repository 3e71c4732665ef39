"""Choices the paper leaves open: separate forward passes, the spread of a Smooth stream, and how much depends on each."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import mnemon
from by_hand import Y, drawn, learn, make, normalised, stack, walk
from mnemon import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.record import Record
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.learning.build import Choice, choose, omitted_at_default
from mnemon.learning.methods import methods
from mnemon.learning.objectives import OBJECTIVES
from mnemon.paper import documents, reproduce, sensitivity
from mnemon.paper.results import Results
from mnemon.paper.sensitivity import STUDIES
from mnemon.render import names
from mnemon.streams import smooth
from mnemon.streams.kinds import schedule
from mnemon.streams.kinds.smooth import Smooth

ROOT = Path(__file__).parents[2]


def test_separate_passes_are_two_passes_and_one_loss():
    """B_n first, then B_r, each with its own BatchNorm statistics; the mean is still over all of them."""
    learner = make("er", memory_size=25, forward="separate")

    def one_step(ref, memory, step, new):
        parts = [(normalised(new), Y[new])]
        if memory:
            parts.append(stack(memory, drawn(learner, step, "replay", 10)))
        losses = torch.cat([ref.losses(x, y) for x, y in parts])
        ref.sgd(ref.gradient(None, None, losses.mean()))

    ref, _ = walk(learner, 25, one_step)
    learn(learner, 25)
    assert ref.equals(learner)  # the running statistics too, which move with each pass


@pytest.mark.parametrize("name", [name for name, method in methods().items() if method.replays])
def test_separate_passes_go_with_every_method_that_replays(name):
    if methods()[name].own_passes:
        with pytest.raises(MnemonError, match="no option 'forward'"):
            make(name, forward="separate")
        return
    joint, separate = make(name, memory_size=30), make(name, memory_size=30, forward="separate")
    for learner in (joint, separate):
        learn(learner, 12)
        learner.check()
    assert not torch.equal(joint.parameters[0], separate.parameters[0])


def test_without_batch_norm_separate_passes_change_nothing():
    values = [
        mnemon.run("hybrid", "split-digits", forward=way, memory_size=40)["average_accuracy"]
        for way in ("joint", "separate")
    ]
    assert values[0] == pytest.approx(values[1], abs=1.5)  # rounding, which training amplifies


def test_the_record_says_how_samples_passed():
    assert mnemon.run("er", "split-digits")["protocol"]["forward"] == "joint"
    record = mnemon.run("er", "split-digits", forward="separate")
    assert record["protocol"]["forward"] == record["options"]["forward"] == "separate"
    assert mnemon.run("a-gem", "split-digits")["protocol"]["forward"] == "separate"


def test_every_run_ever_recorded_keeps_its_name():
    """Each committed record is found again under its own name, made from what was asked for. All of them can be: none was
    made with a method, a network or arrays of one's own, whose names no spec leads to."""
    found = [*ResultFolder(ROOT / "results").read(), *ResultFolder(ROOT / "results" / "fig1").read()]
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.jsonl")):
        found += [Record(json.loads(line)) for line in path.read_text().splitlines()]
    assert len(found) > 5000
    assert sum("own" in r or r["data"]["name"] == "arrays" for r in found) == 0
    asked: dict[str, tuple[Spec, Choice]] = {}  # runs that differ in the seed alone have one choice
    for r in found:
        # What a record does not state is at its default, whatever a recipe says by now.
        options = omitted_at_default(methods()[r["method"]], OBJECTIVES[r["loss"]]) | r["options"]
        given = r["method"], r["stream"], 0, r["loss"], (), r["split"], r["order"], options
        backbone = r.get("backbone")
        place = json.dumps([*given, backbone], sort_keys=True)
        if place not in asked:
            spec = Spec(*given, backbone=backbone)
            asked[place] = spec, spec.choice()
            assert asked[place][1].options() == r["options"]
        spec, choice = asked[place]
        name = replace(spec, seed=r["seed"]).key(choice, r["stream"], r["data"]["checksum"], r.computed)
        assert name == r["run"]


def test_an_option_that_came_later_is_in_no_name_at_its_default():
    assert "forward" not in choose("er").options()
    assert choose("er", given={"forward": "separate"}).options()["forward"] == "separate"
    assert "forward" not in choose("fine-tune").options()


def test_a_smooth_stream_may_name_its_spread():
    name = protocol.parse("smooth-digits-0.25")
    assert (name.schedule, str(name)) == (Smooth(0.25), "smooth-digits-0.25")
    assert str(protocol.parse("smooth-digits-0.50")) == "smooth-digits"
    assert str(protocol.parse("smooth-digits-1.0")) == "smooth-digits-1.0"
    labels = np.repeat(np.arange(4), 60)
    made = protocol.make(name, labels, seed=3, order="natural")
    assert made.indices.tolist() == smooth(labels, length=200, seed=3, spread=0.25).indices.tolist()
    assert mnemon.run("er", "smooth-digits-0.25")["stream"] == "smooth-digits-0.25"


@pytest.mark.parametrize("text", ["smooth-digits-0.0", "split-digits-0.5", "smooth-digits-5", "smooth-digits-.5"])
def test_a_spread_that_is_none(text):
    with pytest.raises(MnemonError):
        protocol.parse(text)


def test_the_page_names_and_draws_the_spread():
    assert names.stream("smooth-cifar10-0.25") == "Smooth CIFAR-10, spread 0.25"
    assert names.stream("split-cifar100-20") == "Split CIFAR-100, 20 tasks"
    found = [schedule(name) for name in ("smooth-cifar10-0.25", "smooth-cifar10", "smooth")]
    assert found == [Smooth(0.25), Smooth(0.5), Smooth(0.5)]


# --- how much depends on each


def test_the_page_has_the_tables_of_the_records():
    page = ROOT / "docs" / "ambiguities.md"
    found = Results.read(ROOT / "results")
    assert documents.names(page) == ["sensitivity"]
    assert (
        documents.filled(page.read_text(), lambda name: reproduce.block(name, found, page.parent)) == page.read_text()
    ), "run: make results"


def test_a_study_changes_one_choice():
    """Within a study, runs of one method on one stream differ in what the study is about, and in nothing else."""
    for study in STUDIES:
        for stream in study.streams:
            for method in {v.method for v in study.alternatives}:
                rows = [v for v in study.alternatives if v.method == method]
                specs = [v.spec(stream, 0) for v in rows]
                options = [s.choice().options() for s in specs]
                varied = {name for o in options for name in o if any(o[name] != other.get(name) for other in options)}
                varied |= {"ncm"} if len({s.classifiers for s in specs}) > 1 else set()
                varied |= {"order"} if len({s.order for s in specs}) > 1 else set()
                varied |= {"spread"} if len({s.stream for s in specs}) > 1 else set()
                assert varied == {study.name}
                assert len({json.dumps([s.stream, s.order, s.classifiers, s.options]) for s in specs}) == len(rows)


def holding(records):
    return Results(ROOT, RecordIndex(records))


def test_a_cell_is_the_mean_of_its_records_or_not_run():
    there = ResultFolder(ROOT / "results").read()
    mine = [
        r
        for r in there
        if (r["method"], r["stream"], r["classifier"], r["order"]) == ("hybrid", "split-mnist", "ncm", "random")
    ]
    assert sorted(r["seed"] for r in mine) == [0, 1, 2, 3, 4]
    mean, half = mnemon.metrics.confidence_interval([r["average_accuracy"] for r in mine])
    forgetting = np.mean([r["average_forgetting"] for r in mine])

    def cell(of_them):
        (line,) = (
            li for li in sensitivity.markdown(holding(of_them)).splitlines() if li.startswith("| hybrid + NCM, random")
        )
        return line.split(" | ")[1]

    assert cell(there) == cell(mine) == f"{mean:.2f} ± {half:.2f} ({forgetting:.2f})"
    assert cell([]) == "not run"
    assert cell(mine[:1]).endswith(", 1 of 5 runs")
    assert set(sensitivity.markdown(holding([])).replace("|", " ").split()) >= {"not", "run"}
    assert "±" not in sensitivity.markdown(holding([]))


def test_missing_runs_are_each_named_once():
    specs = sensitivity.missing(holding([]), ["split-mnist", "smooth-mnist"])
    keys = [s.key(s.choice(), str(protocol.parse(s.stream)), "-", {"device": "cpu"}) for s in specs]
    assert len(set(keys)) == len(keys)
    trained = {s.classifiers for s in specs if s.method == "er" and s.order == "natural" and s.stream == "split-mnist"}
    assert ("ncm", "ncm-raw", "ncm-unit", "softmax") in trained  # one training, read four ways
    assert {s.split for s in specs} == {"test"}
    assert {s.cell for s in specs} == {"sensitivity"}
    assert sensitivity.missing(Results.read(ROOT / "results"), ["split-mnist", "smooth-mnist"]) == []
    with pytest.raises(MnemonError, match="did you mean 'split-mnist'"):
        sensitivity.missing(holding([]), ["split-mnits"])


def test_reproduce_makes_what_the_tables_miss(tmp_path):
    """Only what has no record; a run that two studies read is made once, with the classifiers of both."""
    work = reproduce.Reproduction(["sensitivity"], tmp_path, streams=("split-mnist",))
    (plan,) = work.plans()
    assert (plan.there, plan.of) == (0, 18)
    er = [s for s in plan.runs if (s.method, s.order, s.seed, s.options.get("forward")) == ("er", "natural", 0, None)]
    assert er[0].classifiers == ("ncm", "ncm-raw", "ncm-unit", "softmax")
    (plan,) = reproduce.Reproduction(["sensitivity"], ROOT / "results", streams=("split-mnist",)).plans()
    assert (plan.there, plan.of, plan.runs) == (18, 18, [])
