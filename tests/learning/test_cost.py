"""Bytes and multiplications of a learner, against counts by hand and torch's own counter."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import by_hand
import mnemon
from mnemon.experiments import runner
from mnemon.experiments.executor import Executor
from mnemon.experiments.spec import Spec
from mnemon.learning import cost
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.learners import make_learner
from mnemon.learning.methods import methods

CIFAR = Inputs((3, 32, 32))
DIGITS = Inputs((1, 8, 8))


def multiplications(method, inputs, backbone, capacity=16, loss=None, **options):
    choice = choose(method, loss, given=options)
    return cost.multiplications(choice.method, choice.objective, inputs, backbone, capacity)


def test_er_on_cifar_is_three_passes_over_each_layer_but_the_first():
    """Outputs of a layer times the numbers each is made of; forward, for the weights, and for the inputs."""
    stem = 32**2 * 20 * 3 * 9
    forward = stem + 4 * 32**2 * 20 * 20 * 9
    for side, width in ((16, 40), (8, 80), (4, 160)):
        forward += side**2 * width * (width // 2 * 9 + 3 * width * 9 + width // 2)  # four convolutions and a shortcut
    forward += 160 * 16
    found = multiplications("er", CIFAR, "resnet18")
    assert found == 2 * (
        3 * forward - stem
    )  # a new sample and a replayed one; nobody asks for the gradient of an image
    assert found == pytest.approx(328e6, rel=0.01)


FIRST = 64 * 400
FORWARD = FIRST + 400 * 400 + 400 * 16
STEP = 3 * FORWARD - FIRST  # of one sample
BODY = STEP - 3 * 400 * 16  # without the last layer
PAIRS = 20 * 20 * 400  # similarities of a batch


@pytest.mark.parametrize(
    ("method", "given", "total"),
    [
        ("er", {}, 20 * STEP),
        ("er", {"replay_size": 30}, 40 * STEP),
        ("fine-tune", {}, 10 * STEP),
        ("iid-offline", {}, 5 * 10 * STEP),
        ("er", {"memory_size": 4}, 14 * STEP),  # no more are replayed than there are
        ("a-gem", {}, 20 * STEP),
        ("a-gem", {"reference_size": 40}, 50 * STEP),
        ("der++", {}, 30 * STEP),
        ("mir", {}, 20 * STEP + 10 * STEP + 2 * 50 * FORWARD),  # a virtual step, and two looks at the candidates
        ("pcr", {}, 20 * STEP),
        ("er-aml", {}, 40 * BODY + 10 * (STEP - BODY) + 3 * 10 * 20 * 400),  # pairs; proxies for the replayed alone
        ("hybrid", {}, 20 * STEP + 3 * PAIRS),  # proxies are as many products as a head
        ("gmed-er", {}, 20 * STEP + 10 * STEP + 2 * 10 * 2 * FORWARD),  # two gradients of the replayed images
    ],
)
def test_the_passes_of_a_step(method, given, total):
    assert multiplications(method, DIGITS, "mlp", **given) == total / 10


@pytest.mark.parametrize("method", [name for name, method in methods().items() if method.trains])
def test_values_do_not_matter(method):
    """Each method's step is counted without them, as it is with them."""
    found = []
    for device in ("cpu", "meta"):
        choice = choose(method)
        learner = Learner(choice.method, choice.objective, Inputs(by_hand.SHAPE), backbone=by_hand.body, device=device)
        found.append(cost._of_step(learner, 10, 16))
    assert found[0] == found[1] > 0


def test_convolutions_count_as_in_torchs_own_counter():
    x = torch.randn(3, 4, 9, 9, requires_grad=True)
    net = nn.Sequential(
        nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.ConvTranspose2d(6, 5, 3, stride=2), nn.Flatten(), nn.Linear(605, 7)
    )
    with cost.Counter() as mine:
        net(x).sum().backward()
    with FlopCounterMode(display=False) as theirs:
        net(x).sum().backward()
    assert mine.total == theirs.get_total_flops() / 2 > 0
    with cost.Counter() as grouped:  # of which torch's counter makes too much
        nn.Conv2d(4, 8, 3, groups=2)(x).sum().backward()
    assert grouped.total == 3 * (3 * 8 * 7 * 7 * 2 * 9)


def test_distances_and_sums_of_products_count():
    a, b = torch.randn(5, 3), torch.randn(4, 3)
    with cost.Counter() as counter:
        torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    assert counter.total == 5 * 4 * 3
    with cost.Counter() as counter:
        torch.zeros(3, 3).addmm_(a.T, a)
        torch.baddbmm(torch.zeros(2, 5, 4), a.expand(2, 5, 3), b.T.expand(2, 3, 4))
    assert counter.total == 3 * 3 * 5 + 2 * 5 * 4 * 3


def test_attention_counts_as_the_products_it_is_made_of():
    class Attention(nn.Module):
        def forward(self, x):
            x = x.flatten(1).reshape(-1, 1, 8, 8)
            return nn.functional.scaled_dot_product_attention(x, x, x).flatten(1)

    head = 64 * 16
    assert multiplications("fine-tune", DIGITS, Attention()) == 2 * 8 * 8 * 8 + 2 * head  # nothing before it is trained


def test_a_kind_of_run_is_counted_once(monkeypatch):
    monkeypatch.setattr(cost, "_known", {})
    made = []

    def make(*args, **named):
        made.append(named["device"])
        return make_learner(*args, **named)

    monkeypatch.setattr(cost, "make_learner", make)

    first = multiplications("hybrid", DIGITS, "mlp")
    assert first == multiplications("hybrid", DIGITS, "mlp", lr=0.3, gamma=2.0)
    assert made == ["cpu"]
    assert first < multiplications("hybrid", DIGITS, "mlp", replay_size=20)
    assert first < multiplications("hybrid", DIGITS, "mlp", 32)
    assert first > multiplications("hybrid", DIGITS, "mlp:width=100")
    assert len(made) == 4
    for times in (1, 2):  # a module may be another one next time
        multiplications("hybrid", DIGITS, nn.Flatten())
        assert len(made) == 4 + times


def test_counting_touches_nothing():
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).eval()
    before = {name: tensor.clone() for name, tensor in own.state_dict().items()}
    threads, random = torch.get_num_threads(), torch.random.get_rng_state()
    assert multiplications("er", DIGITS, own) == 2 * (2 * 64 * 8 + 3 * 8 * 16)
    assert torch.equal(torch.random.get_rng_state(), random)
    assert torch.get_num_threads() == threads
    assert all(torch.equal(before[name], tensor) for name, tensor in own.state_dict().items())
    assert not own.training
    assert all(p.grad is None for p in own.parameters())


class Asking(nn.Module):
    """Looks at a value; and refuses to be trained, if it is to."""

    def __init__(self, trainable=True):
        super().__init__()
        self.layer, self.trainable = nn.Linear(64, 8), trainable

    def forward(self, x):
        if self.training and not self.trainable:
            raise ValueError("not like this")
        x = x.flatten(1)
        return self.layer(x if x.sum().item() > 0 else -x)


def test_a_network_that_asks_for_values_gets_them_and_one_that_fails_is_not_counted(monkeypatch):
    monkeypatch.setattr(cost, "SMALL", 0)
    assert multiplications("fine-tune", DIGITS, Asking()) == 2 * 64 * 8 + 3 * 8 * 16
    assert multiplications("fine-tune", DIGITS, Asking(trainable=False)) is None


def test_statistics_are_features_and_a_product_of_them_for_each_view():
    """8 filters of 6 × 6 × 3 numbers at 27 × 27 places; 2·8·4 features."""
    one = 27**2 * 8 * 108 + (2 * 8 * 4) ** 2
    assert multiplications("slda", CIFAR, "patches:filters=8") == one
    assert multiplications("slda", CIFAR, "patches:filters=8", views=2) == 2 * one
    assert multiplications("slda", DIGITS, "identity") == 64**2


def test_bytes_are_those_of_the_network_and_the_memory():
    choice = choose("hybrid", given={"memory_size": 1000})
    learner = Learner(choice.method, choice.objective, CIFAR, backbone="resnet18")
    body = sum(t.numel() for t in learner.net.backbone.state_dict().values())
    rows, memory = 16 * 160, 1000 * (3 * 32 * 32 + 8)
    assert cost.state_bytes(learner) == 4 * (body + rows) + memory + 16 * (1 + 8) + 8
    assert cost.state_bytes(learner) == pytest.approx(7.47e6, rel=0.001)


def test_a_record_says_what_the_run_cost(tmp_path, monkeypatch):
    """One that was interrupted, too."""
    asked = Spec("mir", "split-digits", classifiers=("ncm", "softmax"), options={"candidates": 20})
    whole = runner.run_all([asked], tmp_path / "whole")
    settle = Executor.settle

    def stopped(executor, proceed):
        settle(executor, proceed)
        if executor.run.position > 60:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Executor, "settle", stopped)
        with suppress(KeyboardInterrupt):
            runner.run_all([asked], tmp_path, checkpoint_every=0)
    monkeypatch.setattr(cost, "_known", {})
    resumed = runner.run_all([asked], tmp_path)
    memory = whole[0]["memory_size"] * (64 + 8)
    for record in (*whole, *resumed):
        assert record["multiplications"] == (20 * STEP + 10 * STEP + 2 * 20 * FORWARD) / 10
        assert record["state_bytes"] == 4 * (FORWARD + 400 + 400 + 16) + memory + 16 * (1 + 8) + 8


def test_a_run_of_ones_own_network_is_recorded_though_it_cannot_be_counted(monkeypatch):
    class Once(nn.Module):
        """Fails in every pass after those of the run."""

        def forward(self, x):
            if over:
                raise RuntimeError("no more")
            return x.flatten(1)

    over = []
    count = cost.multiplications
    monkeypatch.setattr(cost, "multiplications", lambda *args: over.append(True) or count(*args))
    record = mnemon.run("er", "split-digits", backbone=Once())
    assert over
    assert record["multiplications"] is None
    assert record["state_bytes"] > 0
    assert np.isfinite(record["average_accuracy"])
