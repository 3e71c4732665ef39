"""Choices the paper leaves open: separate forward passes, and the spread of a Smooth stream."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import mnemon
from by_hand import Y, drawn, learn, make, normalised, stack, walk
from mnemon import MnemonError
from mnemon.experiments import protocol
from mnemon.experiments.spec import Spec
from mnemon.learning.build import choose
from mnemon.learning.methods import methods
from mnemon.report import names
from mnemon.streams import smooth

ROOT = Path(__file__).parents[1]


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


def test_runs_recorded_before_the_option_keep_their_names():
    """Every committed record is found again under its own name."""
    found = [json.loads(line) for line in (ROOT / "results" / "records.jsonl").read_text().splitlines()]
    assert len(found) > 1000
    for r in found[::7]:
        spec = Spec(r["method"], r["stream"], r["seed"], r["loss"], (), r["split"], r["order"], r["options"])
        choice = spec.choice()
        assert choice.options() == r["options"]
        precision = "tf32" if r["device"] == "cpu" else r.get("precision", "tf32")
        assert spec.key(choice, r["stream"], r["data"]["checksum"], r["device"], precision) == r["run"]
    assert "forward" not in choose("er").options()
    assert choose("er", given={"forward": "separate"}).options()["forward"] == "separate"
    assert "forward" not in choose("fine-tune").options()


def test_a_smooth_stream_may_name_its_spread():
    name = protocol.parse("smooth-digits-0.25")
    assert (name.spread, str(name)) == (0.25, "smooth-digits-0.25")
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
    assert [names.spread(name) for name in ("smooth-cifar10-0.25", "smooth-cifar10", "smooth")] == [0.25, 0.5, 0.5]
