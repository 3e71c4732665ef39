"""Momentum and weight decay are those of torch.optim.SGD; alone, resumed, grown and in a stack."""

import numpy as np
import pytest
import torch

import by_hand
from mnemon.learning.build import choose
from mnemon.learning.captured import members
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.method import Batch
from mnemon.learning.methods import methods

BOTH = {"sgd_momentum": 0.9, "weight_decay": 0.01}


def make(method="er", seed=3, **options):
    memory = {"memory_size": 60} if choose(method).method.replays else {}
    choice = choose(method, given={"lr": 0.02} | memory | options)
    return Learner(
        choice.method, choice.objective, Inputs(by_hand.SHAPE), backbone=by_hand.body, dtype=torch.float64, seed=seed
    )


def rows(steps, start=0):
    return np.arange(start * 10, (start + steps) * 10).reshape(steps, 10)


@pytest.mark.parametrize("options", [{"sgd_momentum": 0.9}, {"weight_decay": 0.1}, BOTH, {}])
def test_it_is_the_optimiser_of_torch(options):
    learner = make(**options)
    twins = [torch.nn.Parameter(p.detach().clone()) for p in learner.parameters]
    sgd = torch.optim.SGD(
        twins, lr=0.02, momentum=options.get("sgd_momentum", 0), weight_decay=options.get("weight_decay", 0)
    )
    learner.seen.fill_(True)  # the rows of classes not seen do not decay
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        gradient = tuple(torch.randn(p.shape, generator=g, dtype=p.dtype) for p in learner.parameters)
        learner.sgd_step(gradient)
        for twin, part in zip(twins, gradient, strict=True):
            twin.grad = part
        sgd.step()
    torch.testing.assert_close(learner.parameters, tuple(twins))


def test_rows_of_classes_not_seen_do_not_decay():
    learner = make(**BOTH)
    before = learner.net.head_weight.detach().clone()
    learner.learn(by_hand.X, by_hand.Y, rows(3))  # classes 0 and 1
    assert torch.equal(learner.net.head_weight[2:], before[2:])
    assert not torch.equal(learner.net.head_weight[:2], before[:2])


def test_a_virtual_step_is_plain():
    """MIR and GMED look where a plain step would lead."""
    plain, fast = make("mir"), make("mir", **BOTH)
    fast.restore({name: t.clone() for name, t in fast.state().items()}, steps=0, samples=0)
    for v in fast.velocity:
        v.fill_(1.0)
    new = Batch(by_hand.normalised(range(10)), by_hand.Y[:10])
    for learner in (plain, fast):
        learner.seen[:2] = True
    torch.testing.assert_close(plain.virtual_step(new), fast.virtual_step(new))


def test_the_velocity_is_saved_and_grows():
    whole, cut, again = make(**BOTH), make(**BOTH), make(**BOTH)
    whole.learn(by_hand.X, by_hand.Y, rows(20))
    cut.learn(by_hand.X, by_hand.Y, rows(9))
    state = {name: tensor.clone() for name, tensor in cut.state().items()}
    assert {f"velocity.{name}" for name in cut.names} == {name for name in state if name.startswith("velocity.")}
    again.restore(state, steps=9, samples=90)
    again.learn(by_hand.X, by_hand.Y, rows(11, 9))
    assert all(torch.equal(tensor, whole.state()[name]) for name, tensor in again.state().items())
    old = again.state()["velocity.head_weight"].clone()
    again.grow(100)
    new = again.state()["velocity.head_weight"]
    assert torch.equal(new[:16], old)
    assert new.shape == (128, 6)
    assert not new[16:].any()
    again.learn(by_hand.X, by_hand.Y, rows(5, 20))
    again.check()
    assert not any(name.startswith("velocity.") for name in make(weight_decay=0.1).state())


@pytest.mark.parametrize("method", [name for name, method in methods().items() if method.trains])
def test_it_stacks(method):
    """With hyper-parameters of their own, too."""
    different = [BOTH, {"sgd_momentum": 0.5, "weight_decay": 0.001, "lr": 0.01}]
    for options in ([BOTH, BOTH], different if method in ("er", "gmed-mir") else [{"weight_decay": 0.01}] * 2):
        stacked, alone = ([make(method, seed, **given) for seed, given in enumerate(options)] for _ in range(2))
        mine = members(stacked, by_hand.X, [by_hand.Y] * 2)
        for member in mine:
            member.begin(rows(9))
        for member in mine:
            member.wait()
        for one, other in zip(stacked, alone, strict=True):
            other.learn(by_hand.X, by_hand.Y, rows(9))
            torch.testing.assert_close(one.state(), other.state(), rtol=1e-6, atol=1e-8)
