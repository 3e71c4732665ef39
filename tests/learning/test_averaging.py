"""Averaged weights: the mean they are, who sees them and who does not, and that they are kept, saved and stacked."""

import copy

import numpy as np
import pytest
import torch

import by_hand
from mnemon.learning.averaging import LONGEST, RECENT, Average
from mnemon.learning.build import choose
from mnemon.learning.captured import members
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods import methods
from mnemon.learning.stacked.stack import Stack


class Count(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts operations."""

    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        return function(*args, **(kwargs or {}))


DECAYS = (0.9, 0.5, "auto")


def make(method="er", seed=3, **options):
    memory = {"memory_size": 60} if choose(method).method.replays else {}
    choice = choose(method, given={"lr": 0.05} | memory | options)
    return Learner(
        choice.method, choice.objective, Inputs(by_hand.SHAPE), backbone=by_hand.body, dtype=torch.float64, seed=seed
    )


def rows(steps, start=0):
    return np.arange(start * 10, (start + steps) * 10).reshape(steps, 10)


def moving(learner):
    return {name: tensor.detach().clone() for name, tensor in learner.moving().items()}


@pytest.mark.parametrize("decay", DECAYS)
def test_the_average_is_the_weighted_mean_of_the_iterates(decay):
    """Written out: with weights d^k, to which the start adds nothing; or by the rule of `auto`."""
    learner, iterates, seen, age = make(average=decay), [], set(), 0
    expected = moving(learner)
    for step in range(12):
        learner.learn(by_hand.X, by_hand.Y, rows(1, step))
        iterates.append(moving(learner))
        new = set(by_hand.Y[rows(1, step)[0]].tolist())
        age = age + 1 if new <= seen else 0
        seen |= new
        for name, mean in expected.items():
            if decay == "auto":
                mean += max(RECENT / (age + 1 + RECENT), 1 / LONGEST) * (iterates[-1][name] - mean)
            else:
                weights = [decay**k for k in reversed(range(len(iterates)))]
                expected[name] = sum(w * i[name] for w, i in zip(weights, iterates, strict=True)) / sum(weights)
        if step == 0 and decay != "auto":
            torch.testing.assert_close(learner.average.tensors(), iterates[0])
    torch.testing.assert_close(learner.average.tensors(), expected, rtol=1e-6, atol=1e-9)  # auto's weight is a float32
    assert {"head_weight", "backbone.0.weight", "backbone.1.running_mean"} <= expected.keys()
    assert int(learner.average.age) == (age if decay == "auto" else 12)


def test_every_iterate_weighs_the_same_where_the_decay_is_rounded_to_one():
    average = Average({"p": torch.zeros(2)}, torch.device("cpu"))
    for value in (1.0, 2.0, 6.0):
        average.update({"p": torch.full((2,), value)}, torch.tensor(1.0), torch.tensor(True))
    assert average.tensors()["p"].tolist() == pytest.approx([3.0, 3.0])


@pytest.mark.parametrize("method", [name for name, method in methods().items() if method.trains])
def test_training_never_sees_the_average(method):
    """Methods that look at the network in a step (GSS, ASER, MIR …) look at the weights."""
    plain, averaged = make(method), make(method, average=0.9)
    for learner in (plain, averaged):
        learner.learn(by_hand.X, by_hand.Y, rows(15))
    state = averaged.state()
    for name, tensor in plain.state().items():
        assert torch.equal(tensor, state[name]), name
    assert state.keys() - plain.state().keys() == {*(f"average.{name}" for name in averaged.moving()), "age"}


@pytest.mark.parametrize("classifiers", [["softmax", "ncm"], ["proxy", "ncm-unit"], ["prototype", "ncm"]])
def test_the_average_alone_predicts(classifiers):
    """Scores and class means are those of a network that has the averaged weights for its own."""
    method, loss = {"softmax": ("er", "ce"), "proxy": ("hybrid", "hybrid"), "prototype": ("cope", "cope")}[
        classifiers[0]
    ]
    learner = make(method, average=0.8)
    learner.learn(by_hand.X, by_hand.Y, rows(12))
    chosen = choose(method, loss, classifiers).classifiers
    plain = copy.copy(learner)
    plain.net, plain.average = copy.deepcopy(learner.net), None
    asked = by_hand.X[:40]
    of_the_last_step = plain.scores(asked, chosen)
    plain.net.load_state_dict(learner.average.tensors(), strict=False)
    for found, expected, other in zip(
        learner.scores(asked, chosen), plain.scores(asked, chosen), of_the_last_step, strict=True
    ):
        torch.testing.assert_close(found, expected)
        assert not torch.allclose(found, other)


@pytest.mark.parametrize("decay", DECAYS)
def test_it_is_saved_and_grows(decay):
    whole, cut = make(average=decay), make(average=decay)
    whole.learn(by_hand.X, by_hand.Y, rows(20))
    cut.learn(by_hand.X, by_hand.Y, rows(9))
    again = make(average=decay)
    again.restore({name: tensor.clone() for name, tensor in cut.state().items()}, steps=9, samples=90)
    again.learn(by_hand.X, by_hand.Y, rows(11, 9))
    assert all(torch.equal(tensor, whole.state()[name]) for name, tensor in again.state().items())

    before = {name: mean.clone() for name, mean in again.average.tensors().items()}
    age = int(again.average.age)
    again.grow(100)
    after = again.average.tensors()
    assert len(after["head_weight"]) == again.net.capacity == 128
    assert all(torch.equal(after[name][: len(mean)], mean) for name, mean in before.items())
    assert torch.equal(after["head_weight"][16:], again.net.head_weight[16:])
    assert int(again.average.age) == age
    again.learn(by_hand.X, by_hand.Y, rows(5, 20))
    again.check()


@pytest.mark.parametrize("decays", [(0.9, 0.9, 0.9), (0.9, 0.5, 0.99), ("auto",) * 3])
@pytest.mark.parametrize("method", ["er", "cope", "las"])
def test_it_stacks(method, decays):
    stacked, alone = ([make(method, seed, average=decay) for seed, decay in enumerate(decays)] for _ in range(2))
    mine = members(stacked, by_hand.X, [by_hand.Y] * 3)
    for part in np.split(rows(20), [13]):
        for member in mine:
            member.begin(part)
        for member in mine:
            member.wait()
    for one, other in zip(stacked, alone, strict=True):
        other.learn(by_hand.X, by_hand.Y, rows(20))
        torch.testing.assert_close(one.state(), other.state(), rtol=1e-6, atol=1e-8)
        one.grow(100)  # its own again
        assert len(one.average.tensors()["backbone.0.weight"]) == 4


def test_a_step_of_the_average_is_a_few_operations():
    """However many tensors the network has, and however many runs the stack: the device is launched for each of them."""
    counts = []
    for runs in (2, 4):
        learners = [make("er", seed, average=0.9) for seed in range(runs)]
        plans = [next(iter(learner.blocks(by_hand.Y[rows(1)].numpy()))).plan for learner in learners]
        draws = {key: torch.from_numpy(np.stack([plan[key][0] for plan in plans])) for key in plans[0]}
        stack = Stack(learners)
        with Count() as count:
            stack.step(by_hand.X[:10].expand(runs, -1, -1, -1, -1), by_hand.Y[:10].expand(runs, -1), draws)
        counts.append(count.calls)
    assert counts[0] == counts[1]


def test_a_number_as_a_parameter_survives_more_classes():
    """It has no rows that could grow."""

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(1.0))

        def forward(self, x):
            return self.factor * x.flatten(1)

    choice = choose("er", given={"average": 0.9, "sgd_momentum": 0.5, "memory_size": 10})
    learner = Learner(choice.method, choice.objective, Inputs((4,), torch.float32, 0.0, 1.0), backbone=Scaled)
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    learner.learn(x, torch.arange(20) % 3, np.arange(20).reshape(2, 10))
    factor = learner.average.tensors()["backbone.factor"].clone()
    learner.grow(40)
    assert torch.equal(learner.average.tensors()["backbone.factor"], factor)
    learner.learn(x, torch.arange(20) * 2, np.arange(20).reshape(2, 10))
