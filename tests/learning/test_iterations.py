"""Several steps of SGD per batch: each replays rows of its own, and the memory is written once."""

import numpy as np
import pytest
import torch

import by_hand
from mnemon import rng
from mnemon.learning.build import choose
from mnemon.learning.captured import members
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.memory import replay_rows
from mnemon.learning.methods import methods


def make(method="er", seed=3, **options):
    memory = {"memory_size": 60} if choose(method).method.replays else {}
    choice = choose(method, given={"lr": 0.02} | memory | options)
    return Learner(
        choice.method, choice.objective, Inputs(by_hand.SHAPE), backbone=by_hand.body, dtype=torch.float64, seed=seed
    )


def rows(steps, start=0):
    return np.arange(start * 10, (start + steps) * 10).reshape(steps, 10)


def test_the_iterations_written_out():
    """ER by hand: three times rows from the memory as it was before the batch, one step of SGD each; then the reservoir."""
    learner = make(iterations=3)
    seeds = [3, *(int(rng.words(3, "iteration", i, 1)[0] >> np.uint64(1)) for i in (1, 2))]

    def one_step(ref, memory, step, new):
        for seed in seeds:
            drawn = replay_rows(seed, step, np.array([min(step * 10, 60)]), 10)[0].tolist()
            by_hand.joint(ref, new, *(by_hand.stack(memory, drawn) if drawn else (None, None)))

    learner.learn(by_hand.X, by_hand.Y, rows(15))
    ref, memory = by_hand.walk(make(), 15, one_step)
    assert ref.equals(learner)
    by_hand.same_memory(memory, learner)


@pytest.mark.parametrize("method", ["gmed-er", "gmed-mir"])
def test_gmed_edits_in_the_first_iteration_only(method):
    once, twice, thrice = (make(method, iterations=n) for n in (1, 2, 3))
    for learner in (once, twice, thrice):
        learner.learn(by_hand.X, by_hand.Y, rows(5))  # nothing is overwritten yet
    assert int(once.memory.extra["edits"].sum()) == 40  # ten rows in each step but the first
    for learner in (twice, thrice):
        assert torch.equal(learner.memory.extra["edits"], once.memory.extra["edits"])
        assert not torch.equal(learner.memory.x, once.memory.x)  # at other parameters
    plan = thrice.plan(thrice.next_span(by_hand.Y[rows(1, 5)].numpy())[0])
    assert "edit#1" not in plan


def test_the_draws_of_an_iteration_are_its_own():
    learner = make("mir", iterations=3, candidates=20, augment="all")
    learner.learn(by_hand.X, by_hand.Y, rows(8))
    span, _ = learner.next_span(by_hand.Y[rows(4, 8)].numpy())
    plan = learner.plan(span)
    keys = {"candidates", "augment"}
    assert plan.keys() == {"write", *keys, *(f"{key}#{i}" for key in keys for i in (1, 2))}
    for key in keys:
        drawn = [plan[key], plan[f"{key}#1"], plan[f"{key}#2"]]
        assert len({values.tobytes() for values in drawn}) == 3
        assert len({values.shape for values in drawn}) == 1
    once = make("mir", candidates=20, augment="all").plan(span)
    assert all(np.array_equal(plan[key], values) for key, values in once.items())


@pytest.mark.parametrize("method", [name for name, method in methods().items() if method.trains])
def test_every_method_learns_so_alone_and_in_a_stack(method):
    stacked, alone, once = ([make(method, seed, iterations=n) for seed in range(2)] for n in (2, 2, 1))
    mine = members(stacked, by_hand.X, [by_hand.Y] * 2)
    for member in mine:
        member.begin(rows(9))
    for member in mine:
        member.wait()
    for one, other, single in zip(stacked, alone, once, strict=True):
        for learner in (other, single):
            learner.learn(by_hand.X, by_hand.Y, rows(9))
            learner.check()
        assert (other.steps, other.samples) == (9, 90)
        torch.testing.assert_close(one.state(), other.state(), rtol=1e-6, atol=1e-8)
        assert not torch.allclose(other.state()["net.backbone.0.weight"], single.state()["net.backbone.0.weight"])


def test_keys_of_all_iterations_fit():
    """The more a step draws, the fewer steps are planned at once."""
    blocks = [choose("aser", given={"iterations": n, "memory_size": 20_000}).method.block(128) for n in (1, 2)]
    assert blocks == [66, 33]


def test_it_can_be_cut_anywhere():
    options = {"iterations": 2, "augment": "all", "average": 0.9, "sgd_momentum": 0.5, "weight_decay": 1e-3}
    whole, pieces, again = (make("gmed-mir", **options) for _ in range(3))
    whole.learn(by_hand.X, by_hand.Y, rows(14))
    for start, steps in ((0, 1), (1, 5), (6, 2)):
        pieces.learn(by_hand.X, by_hand.Y, rows(steps, start))
    again.restore({name: tensor.clone() for name, tensor in pieces.state().items()}, steps=8, samples=80)
    again.learn(by_hand.X, by_hand.Y, rows(6, 8))
    assert all(torch.equal(tensor, whole.state()[name]) for name, tensor in again.state().items())
