"""A stack of learners learns what each of them would alone."""

import gc
import weakref

import numpy as np
import pytest
import torch

import by_hand
from mnemon.learning.build import choose
from mnemon.learning.captured import members
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods import methods
from mnemon.learning.plugins import classifier
from mnemon.learning.stacked import can_stack
from mnemon.learning.stacked.stack import Stack

STEPS, BATCH, SEEDS = 30, 10, 3
G = np.random.default_rng(0)
X = torch.from_numpy(G.integers(0, 256, (STEPS * BATCH, 1, 6, 6), np.uint8))
Y = torch.from_numpy(np.arange(STEPS * BATCH) // 60 * 2 + G.integers(0, 2, STEPS * BATCH))  # a task every 60 samples
ROWS = np.arange(STEPS * BATCH).reshape(STEPS, BATCH)
TRAINED = [name for name, method in methods().items() if method.trains]  # the others take no steps to stack


def make(method, seed, **options):
    """A memory of 80: full before the end."""
    choice = choose(method)
    given = {"memory_size": 80} if choice.method.replays else {}
    choice = choose(method, given=given | options)
    return Learner(choice.method, choice.objective, Inputs((1, 6, 6)), backbone="mlp", dtype=torch.float64, seed=seed)


def learn_together(learners):
    """One block after the other until all is learned."""
    mine = members(learners, X, [Y] * len(learners))
    for part in np.split(ROWS, [11, 12]):
        for member in mine:
            member.begin(part)
        for member in mine:
            member.wait()
    return mine


@pytest.mark.parametrize("method", TRAINED)
def test_a_stack_learns_what_each_would_alone(method):
    """In float64, so that rounding cannot grow into a difference; the memories hold the same samples."""
    stacked, alone = ([make(method, seed) for seed in range(SEEDS)] for _ in range(2))
    learn_together(stacked)
    for one, other in zip(stacked, alone, strict=True):
        other.learn(X, Y, ROWS)
        assert (one.steps, one.samples) == (other.steps, other.samples)
        mine, its = one.state(), other.state()
        if one.method.replays:  # the row that is a waste bin is not a part of the state
            assert torch.equal(mine["memory.y"], its["memory.y"])
        for name in its:
            torch.testing.assert_close(mine[name], its[name], rtol=1e-6, atol=1e-8)
    assert not torch.equal(
        stacked[0].state()["net.backbone.hidden1.weight"], stacked[1].state()["net.backbone.hidden1.weight"]
    )


def test_the_memory_of_a_stacked_learner_is_read_as_that_of_one_alone():
    stacked, alone = ([make("er", seed) for seed in range(2)] for _ in range(2))
    learn_together(stacked)
    wanted = [classifier(name) for name in ("ncm", "ridge", "lda", "blend")]
    for one, other in zip(stacked, alone, strict=True):
        other.learn(X, Y, ROWS)
        for mine, its in zip(one.scores(X[:50], wanted), other.scores(X[:50], wanted), strict=True):
            torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)


def test_separate_passes_and_second_views_stack_too():
    for method, options in (
        ("hybrid", {"forward": "separate"}),
        ("mir", {"forward": "separate"}),
        ("scr", {"views": 2}),
    ):
        stacked, alone = ([make(method, seed, **options) for seed in range(2)] for _ in range(2))
        learn_together(stacked)
        for one, other in zip(stacked, alone, strict=True):
            other.learn(X, Y, ROWS)
            torch.testing.assert_close(one.state(), other.state(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["mir", "gmed-mir"])
def test_statistics_that_a_look_moves_move_in_a_stack_too(method):
    def made(statistics):
        given = {"memory_size": 60, "candidates": 20, "forward": "separate", "statistics": statistics}
        chosen = choose(method, given=given)
        return [
            Learner(
                chosen.method,
                chosen.objective,
                Inputs(by_hand.SHAPE),
                backbone=by_hand.body,
                dtype=torch.float64,
                seed=seed,
            )
            for seed in range(2)
        ]

    stacked, alone, kept = made("moved"), made("moved"), made("kept")
    places = members(stacked, by_hand.X, [by_hand.Y] * 2)
    for member in places:
        member.begin(ROWS[:20])
    for member in places:
        member.wait()
    for one, other, still in zip(stacked, alone, kept, strict=True):
        for learner in (other, still):
            learner.learn(by_hand.X, by_hand.Y, ROWS[:20])
        mine, its, without = (learner.state() for learner in (one, other, still))
        torch.testing.assert_close(mine, its, rtol=1e-6, atol=1e-8)
        assert not torch.equal(its["net.backbone.1.running_mean"], without["net.backbone.1.running_mean"])
        assert torch.equal(its["net.backbone.0.weight"], without["net.backbone.0.weight"])  # they do not touch training


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("hybrid", [{"lr": 0.1, "gamma": 0.5}, {"lr": 0.2, "gamma": 0.0}, {"lr": 0.2, "gamma": 2.0}]),
        ("gmed-mir", [{"lr": 0.05, "edit_rate": 1.0}, {"lr": 0.1, "edit_rate": 0.1}, {"lr": 0.1, "edit_hold": 0.5}]),
        ("hybrid", [{"scale": 2.0}, {"scale": 16.0}, {"scale": 0.5, "gamma": 1.0}]),
        ("las", [{"prior_weight": 0.5}, {"prior_decay": 0.5}, {}]),
        ("scr", [{"temperature": 0.2}, {}, {"lr": 0.3}]),
        ("pcr", [{"temperature": 0.2}, {}, {"lr": 0.3}]),
        ("er-aml", [{"pair_temperature": 0.1}, {"pair_weight": 0.0}, {"temperature": 0.3}]),
    ],
)
def test_candidates_of_a_search_stack_too(method, options):
    """Each learns with its own hyper-parameters."""
    stacked, alone = ([make(method, 0, **each) for each in options] for _ in range(2))
    learn_together(stacked)
    for one, other in zip(stacked, alone, strict=True):
        other.learn(X, Y, ROWS)
        torch.testing.assert_close(one.state(), other.state(), rtol=1e-6, atol=1e-8)
    assert not torch.equal(
        stacked[0].state()["net.backbone.hidden1.weight"], stacked[1].state()["net.backbone.hidden1.weight"]
    )


def test_nothing_in_a_step_is_done_run_by_run():
    """As many operations for six runs as for three: that is what a stack is for."""

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.calls += 1
            return function(*args, **(kwargs or {}))

    for method in TRAINED:
        counts = []
        for runs in (3, 6):
            learners = [make(method, seed) for seed in range(runs)]
            learn_together(learners)
            plans = [next(iter(learner.blocks(Y[ROWS[:1]].numpy()))).plan for learner in learners]
            draws = {key: torch.from_numpy(np.stack([plan[key][0] for plan in plans])) for key in plans[0]}
            stack = Stack(learners)
            with Count() as count:
                stack.step(X[ROWS[0]].expand(runs, -1, -1, -1, -1), Y[ROWS[0]].expand(runs, -1), draws)
            counts.append(count.calls)
        assert counts[0] == counts[1], method


def test_runs_of_different_shapes_take_such_a_step_apart():
    """CoPE's memory fills with the labels: where one learner has more to replay than another, each takes its own step."""
    few = torch.where(torch.arange(len(Y)) < 10, Y[0], Y)  # the first batch is of one class, and its quota is small
    stacked, alone = ([make("cope", seed, memory_size=8) for seed in range(2)] for _ in range(2))
    mine = members(stacked, X, [Y, few])
    for member in mine:
        member.begin(ROWS)
    for member in mine:
        member.wait()
    for one, other, y in zip(stacked, alone, (Y, few), strict=True):
        other.learn(X, y, ROWS)
        torch.testing.assert_close(one.state(), other.state(), rtol=1e-6, atol=1e-8)


def test_the_others_go_on_when_one_leaves():
    learners = [make("er", seed) for seed in range(3)]
    mine = members(learners, X, [Y] * 3)
    for member in mine[:2]:
        member.begin(ROWS[:5])
    assert mine[0].push()  # nothing is learned before the third has begun
    assert learners[0].steps == 0
    assert mine[1].withdraw()
    assert not mine[1].withdraw()
    mine[1].begin(ROWS[:7])
    mine[0].withdraw()
    mine[0].begin(ROWS[:7])
    mine[2].leave()
    mine[0].wait()
    mine[1].wait()
    assert learners[0].steps == learners[1].steps == 7
    alone = make("er", 1)
    alone.learn(X, Y, ROWS[:7])
    torch.testing.assert_close(learners[1].state(), alone.state(), rtol=1e-6, atol=1e-8)


def test_what_cannot_be_stacked():
    with pytest.raises(ValueError, match="one kind"):
        Stack([make("er", 0), make("mir", 0)])
    with pytest.raises(ValueError, match="one kind"):
        Stack([make("er", 0), make("er", 0, memory_size=70)])
    learners = [make("er", seed) for seed in range(2)]
    mine = learn_together(learners)
    for learner in learners:
        learner.grow(1000)
    mine[0].begin(ROWS[:2])
    with pytest.raises(ValueError, match="cannot grow"):
        mine[1].begin(ROWS[:2])
    assert can_stack(learners[0])
    learners[0].net.bf16 = True
    assert not can_stack(learners[0])
    learners[0].net.backbone = torch.nn.Linear(36, 400)
    assert not can_stack(learners[0])


def test_the_last_one_out_gives_the_memory_back():
    """Without waiting for Python to find circles."""
    learners = [make("er", seed) for seed in range(2)]
    mine = learn_together(learners)
    there = weakref.ref(mine[0].executor.stack.tensors["memory.x"])
    learners.clear()
    gc.disable()
    try:
        mine[0].leave()
        assert there() is not None
        mine[1].leave()
        gc_needed = there() is not None
    finally:
        gc.enable()
    assert not gc_needed


def test_a_stacked_learner_is_saved_and_restored_as_any_other():
    learners = [make("hybrid", seed) for seed in range(2)]
    learn_together(learners)
    one = learners[1]
    other = make("hybrid", 1)
    other.restore({name: tensor.clone() for name, tensor in one.state().items()}, steps=one.steps, samples=one.samples)
    torch.testing.assert_close(one.state(), other.state(), rtol=0, atol=0)
    before = learners[0].state()["net.backbone.hidden1.weight"].clone()
    one.learn(X, Y, ROWS[:3])  # moves its own row, not the other's
    assert torch.equal(learners[0].state()["net.backbone.hidden1.weight"], before)
