"""The step against the algorithm written out slowly, and what a learner promises beside it."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from mnemon import MnemonError
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.memory import replay_rows, reservoir_slots
from mnemon.learning.network import START_CAPACITY

LR, M = 0.1, 17
X = torch.randint(0, 256, (200, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(200) // 50  # classes 0 … 3, one after the other


def make(method="er", loss=None, seed=0, dtype=torch.float64, inputs=None, **options):
    memory = {} if method == "fine-tune" else {"memory_size": M}
    choice = choose(method, loss, given={"lr": LR} | memory | options)
    return Learner(choice.method, choice.objective, inputs or Inputs((1, 4, 4)), seed=seed, dtype=dtype)


def rows(count, batch=10):
    return np.arange(count * batch).reshape(count, batch)


def slow_ce(net, x, y, seen):
    """Eq. 1: only the classes seen take part."""
    h = F.relu(x.flatten(1) @ net["w1"].T + net["b1"])
    f = F.relu(h @ net["w2"].T + net["b2"])
    logits = f @ net["head"][seen].T + net["bias"][seen]
    place = torch.tensor([seen.index(int(c)) for c in y])
    return -(logits - logits.exp().sum(1, keepdim=True).log())[torch.arange(len(y)), place].mean()


def slow_hybrid(net, x, y, seen):
    """Eq. 8 with loops over anchors and classes."""
    h = F.relu(x.flatten(1) @ net["w1"].T + net["b1"])
    f = F.relu(h @ net["w2"].T + net["b2"])
    z = f / f.norm(dim=1, keepdim=True)
    total, active = torch.zeros((), dtype=x.dtype), 0
    for i in range(len(y)):
        s = z @ z[i]
        pos = [k for k in range(len(y)) if k != i and y[k] == y[i]]
        neg = [k for k in range(len(y)) if y[k] != y[i]]
        mined_p = [k for k in pos if neg and s[k] < max(s[j] for j in neg) + 0.1]
        mined_n = [k for k in neg if pos and s[k] > min(s[j] for j in pos) - 0.1]
        active += bool(mined_p)
        total = total + torch.log(1 + sum(torch.exp(-2 * (s[k] - 0.5)) for k in mined_p)) / 2 if mined_p else total
        total = total + torch.log(1 + sum(torch.exp(50 * (s[k] - 0.5)) for k in mined_n)) / 50 if mined_n else total
    pnca = torch.zeros((), dtype=x.dtype)
    for i in range(len(y)):
        e = {c: torch.exp(-((z[i] - net["proxies"][c]) ** 2).sum()) for c in seen}
        pnca = pnca - torch.log(e[int(y[i])] / sum(e.values()))
    return total / max(active, 1) + 0.25 * pnca / len(y)


@pytest.mark.parametrize("loss", ["ce", "hybrid"])
def test_the_step_is_the_algorithm(loss):
    """Fifteen steps of ER written out by hand: replay, loss, SGD, unit proxies, reservoir; the same parameters."""
    learner = make("er", loss, **({"gamma": 0.25} if loss == "hybrid" else {}))
    net = {
        "w1": learner.net.backbone.hidden1.weight,
        "b1": learner.net.backbone.hidden1.bias,
        "w2": learner.net.backbone.hidden2.weight,
        "b2": learner.net.backbone.hidden2.bias,
    }
    net |= (
        {"head": learner.net.head_weight, "bias": learner.net.head_bias}
        if loss == "ce"
        else {"proxies": learner.net.proxies}
    )
    net = {k: v.detach().clone().requires_grad_() for k, v in net.items()}
    memory, seen = {}, []
    steps = 15
    for step in range(steps):
        new = list(range(step * 10, step * 10 + 10))
        filled = min(step * 10, M)
        replayed = [memory[int(r)] for r in replay_rows(0, step, np.array([filled]), 10)[0]]
        seen = sorted({*seen, *Y[new].tolist()})
        batch = new + replayed
        x = (X[batch].double() - 127.5) / 127.5
        value = (slow_ce if loss == "ce" else slow_hybrid)(net, x, Y[batch], seen)
        gradients = torch.autograd.grad(value, list(net.values()))
        with torch.no_grad():
            for p, g in zip(net.values(), gradients, strict=True):
                p -= LR * g
            if "proxies" in net:
                net["proxies"] /= net["proxies"].norm(dim=1, keepdim=True)
        for sample, slot in zip(new, reservoir_slots(0, step * 10, 1, 10, M)[0], strict=True):
            if slot < M:
                memory[int(slot)] = sample

    assert learner.learn(X, Y, rows(steps)) == steps
    learner.check()
    state = learner.state()
    assert torch.equal(state["memory.x"], X[[memory[r] for r in range(M)]])
    assert torch.equal(state["memory.y"], Y[[memory[r] for r in range(M)]])
    names = {"w1": "backbone.hidden1.weight", "b1": "backbone.hidden1.bias", "w2": "backbone.hidden2.weight"}
    names |= {"b2": "backbone.hidden2.bias", "head": "head_weight", "bias": "head_bias", "proxies": "proxies"}
    for key, p in net.items():
        assert torch.allclose(state[f"net.{names[key]}"], p, atol=1e-10), key
    assert state["seen"].nonzero().flatten().tolist() == [0, 1, 2]


def test_step_one_replays_nothing_and_step_two_all_of_batch_one():
    learner = make()
    seen_batches = []
    original = learner.loss_and_gradient
    learner.loss_and_gradient = lambda batch, new: seen_batches.append((len(batch), new)) or original(batch, new)
    learner.learn(X, Y, rows(3))
    assert seen_batches == [(10, 10), (20, 10), (20, 10)]


def test_fine_tune_keeps_no_memory():
    learner = make("fine-tune")
    learner.learn(X, Y, rows(5))
    assert learner.memory.x.shape[0] == 1  # the waste bin
    assert learner.state()["memory.x"].numel() == 0


@pytest.mark.parametrize(
    ("method", "loss"), [*itertools.product(["hybrid", "er"], ["ce", "ms", "pnca", "hybrid"]), ("fine-tune", "pnca")]
)
def test_nothing_is_ever_nan(method, loss):
    """A first batch of one class, a batch of one sample, an empty memory, a memory smaller than the replay."""
    for options in ({}, {"memory_size": 3}, {"replay_size": 50}) if method != "fine-tune" else ({},):
        learner = make(method, loss, dtype=torch.float32, **options)
        learner.learn(X, torch.zeros_like(Y), rows(3))
        learner.learn(X, Y, rows(7, 1))
        learner.learn(X, Y, rows(12, 3))
        learner.check()
        assert all(torch.isfinite(t).all() for t in learner.state().values() if t.is_floating_point())


def test_proxies_stay_unit_vectors():
    learner = make("hybrid", gamma=2.0)
    learner.learn(X, Y, rows(20))
    assert torch.allclose(learner.net.proxies.norm(dim=1), torch.ones(START_CAPACITY, dtype=torch.float64))


def test_rows_of_classes_not_seen_are_not_trained():
    for loss, name in (("ce", "net.head_weight"), ("hybrid", "net.proxies")):
        learner = make("er", loss)
        before = learner.state()[name].clone()
        learner.learn(X, Y, rows(8))  # classes 0 and 1
        after = learner.state()[name]
        assert not torch.equal(after[:2], before[:2])
        assert torch.allclose(after[2:], before[2:], atol=1e-15)


def test_looking_at_the_memory_does_not_end_training_mode():
    learner = make("er")
    learner.learn(X, Y, rows(3))
    assert learner.net.training
    learner.memory_features()
    assert learner.net.training
    with learner.evaluating():
        assert not learner.net.training
        learner.memory_features()
        assert not learner.net.training


def test_more_classes_than_there_was_room_for():
    """Class 300 comes late: the tables grow, what was learned stays, and every class can be predicted."""
    inputs = Inputs((1, 4, 4))
    learner = make("er", memory_size=600, inputs=inputs)
    learner.learn(X, Y, rows(5))
    before = {k: v.clone() for k, v in learner.state().items() if "backbone" in k}
    old_rows = learner.net.head_weight[:START_CAPACITY].detach().clone()
    learner.grow(301)
    assert learner.net.capacity == 512
    assert torch.equal(learner.net.head_weight[:START_CAPACITY], old_rows)
    assert all(torch.equal(learner.state()[k], v) for k, v in before.items())
    learner.learn(X, torch.full_like(Y, 300), rows(5))
    learner.check()
    assert learner.seen.nonzero().flatten().tolist() == [0, 300]


def test_a_diverged_run_stops_with_a_sentence():
    learner = make("er", lr=1e30, dtype=torch.float32)
    learner.learn(X, Y, rows(10))
    with pytest.raises(MnemonError, match=r"the loss ce of er was not finite at step [1-9]: training diverged"):
        learner.check()


def test_a_run_can_be_cut_anywhere():
    """Learning in pieces of any size is the same as at once, and so is going on from a saved state."""
    whole = make("hybrid", dtype=torch.float32)
    whole.learn(X, Y, rows(20))
    pieces = make("hybrid", dtype=torch.float32)
    for start, stop in ((0, 1), (1, 2), (2, 9), (9, 20)):
        pieces.learn(X, Y, rows(20)[start:stop])
    halves = make("hybrid", dtype=torch.float32)
    halves.learn(X, Y, rows(20), proceed=lambda: halves.steps < 7)
    assert halves.steps == 7
    other = make("hybrid", dtype=torch.float32)
    other.restore({k: v.clone() for k, v in halves.state().items()}, steps=7, samples=70)
    other.learn(X, Y, rows(20)[7:])
    for learner in (pieces, other):
        assert all(torch.equal(a, whole.state()[k]) for k, a in learner.state().items())


def test_a_state_of_another_shape_is_refused():
    state = make(memory_size=9).state()
    with pytest.raises(MnemonError, match="does not belong"):
        make().restore(state, steps=0, samples=0)


def test_predicting_changes_nothing():
    learner = make("er", inputs=Inputs((3, 32, 32)), dtype=torch.float32)
    x = torch.randint(0, 256, (30, 3, 32, 32), dtype=torch.uint8)
    learner.learn(x, Y, rows(2))
    before = {k: v.clone() for k, v in learner.state().items()}
    choice = choose("er", classifiers=["softmax", "ncm", "ncm-raw"])
    first = learner.scores(x, choice.classifiers)
    assert all(torch.equal(v, before[k]) for k, v in learner.state().items())
    assert all(torch.equal(a, b) for a, b in zip(first, learner.scores(x, choice.classifiers), strict=True))
    assert all((scores.argmax(1) <= 1).all() for scores in first)
    assert math.isfinite(first[0][:, 0].sum())
