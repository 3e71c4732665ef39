"""PCR and ER-AML against their algorithms written out slowly, in float64."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import by_hand
from by_hand import X, drawn, learn, make, normalised, same_memory, stack, walk
from mnemon import rng
from mnemon.learning.build import choose
from mnemon.learning.losses import sup_con_pairs
from mnemon.learning.memory import EMPTY
from mnemon.learning.method import Batch
from mnemon.learning.methods.er_aml import pick
from mnemon.learning.network import Output


@pytest.fixture
def mixed(monkeypatch):
    """Two new classes every 60 samples, as a task has them; one batch of a single class, one with a class that comes once."""
    y = torch.arange(500) // 60 * 2 + torch.from_numpy(np.random.default_rng(0).integers(0, 2, 500))
    y[70:80], y[95] = 2, 12
    monkeypatch.setattr(by_hand, "Y", y)
    return y


def features(n, d=5, seed=0):
    return torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def cosine(a, b):
    return a @ b / (a.norm().clamp(min=1e-12) * b.norm())


# --- PCR


def slow_pcr(f, y, proxies, t):
    """Each sample of the batch against the proxies of all of them, itself included, one term for each."""
    total = 0.0
    for i in range(len(y)):
        terms = [torch.exp(cosine(f[i], proxies[y[k]]) / t) for k in range(len(y))]
        own = [k for k in range(len(y)) if y[k] == y[i]]
        total = total - sum(torch.log(terms[k] / sum(terms)) for k in own) / len(own)
    return total / len(y)


@pytest.mark.parametrize("y", [[0, 0, 2, 2, 2, 3], [0, 1, 2, 3, 4, 5], [1, 1, 1, 1, 1, 1]])
def test_pcr_is_a_contrast_with_the_proxy_of_every_sample(y):
    f, proxies = features(6), features(8, seed=1)
    seen = torch.arange(8) < 7
    out = Output(f, proxies=proxies)
    values = choose("pcr").objective(out, torch.tensor(y), seen, 3), slow_pcr(f, y, proxies, 0.09)
    constant = sum(math.log(y.count(c)) for c in y) / len(y)
    assert values[0].item() == pytest.approx(values[1].item() - constant, abs=1e-12)
    gradients = [torch.autograd.grad(value, (f, proxies), retain_graph=True) for value in values]
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(*gradients, strict=True))


def test_pcr_is_its_algorithm(mixed):
    learner = make("pcr", memory_size=25, temperature=0.2)

    def one_step(ref, memory, step, new):
        rows = drawn(learner, step, "replay", 10)
        parts = [(normalised(new), mixed[new])] + ([stack(memory, rows)] if rows else [])
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        ref.sgd(ref.gradient(None, None, slow_pcr(ref.net.backbone(x), y.tolist(), ref.net.proxies, 0.2)))

    ref, memory = walk(learner, 15, one_step)
    learn(learner, 15)
    assert ref.equals(learner)
    same_memory(memory, learner)


def test_classes_that_are_not_in_the_batch_stay_where_they_are(mixed):
    learner = make("pcr", memory_size=25)
    learn(learner, 12)
    batch = learner.replay(torch.tensor([0, 1, 2]))
    gradient = dict(zip(learner.names, learner.loss_and_gradient(batch, 1).gradient, strict=True))["proxies"]
    present = set(batch.y.tolist())
    assert len(present) < learner.seen.sum()
    assert {c for c, row in enumerate(gradient) if row.any()} == present


@pytest.mark.parametrize("method", ["pcr", "er-aml"])
def test_the_class_with_the_largest_cosine_is_predicted(mixed, method):
    learner = make(method, memory_size=60)
    learn(learner, 20)
    (scores,) = learner.scores(X[200:300], choose(method).classifiers)
    with learner.evaluating():
        f, proxies = learner.net(normalised(range(200, 300))).features, learner.net.proxies.detach()
    somewhere = f.norm(dim=1) > 0
    expected = [max(set(mixed[:200].tolist()), key=lambda c: float(cosine(row, proxies[c]))) for row in f]
    assert somewhere.sum() > 50
    assert torch.equal(scores.argmax(1)[somewhere], torch.tensor(expected)[somewhere])


@pytest.mark.parametrize("loss", ["pcr", "cosine"])
def test_the_length_of_a_proxy_means_nothing(loss):
    f, proxies, y = features(4), features(3, seed=1), torch.tensor([0, 1, 2, 1])
    objective, seen = choose("er", loss).objective, torch.ones(3, dtype=torch.bool)
    once, twice = (objective(Output(f, proxies=scale * proxies), y, seen, 4).item() for scale in (1, 2))
    assert once == pytest.approx(twice)


def test_methods_score_by_the_cross_entropy_over_all_classes_seen():
    f, proxies = features(4).detach(), features(5, seed=1).detach()
    seen = torch.tensor([True, True, True, False, True])
    y = torch.tensor([0, 1, 4, 4])
    scored = choose("mir", "pcr").objective.per_sample(Output(f, proxies=proxies), y, seen)
    for i, value in enumerate(scored.tolist()):
        terms = {c: math.exp(float(cosine(f[i], proxies[c])) / 0.09) for c in (0, 1, 2, 4)}
        assert value == pytest.approx(-math.log(terms[int(y[i])] / sum(terms.values())))


# --- ER-AML


def places_allowed(stored, y, i):
    """Where the positive and the negative of new sample i may come from: memory rows first, then the new samples."""
    every = [*stored, *y]
    positives = [p for p in range(len(every)) if every[p] == y[i] and p != len(stored) + i]
    return positives, [p for p in range(len(every)) if every[p] in y and every[p] != y[i]]


def slow_sup_con_pairs(z, y, pairs, labels, t):
    """pairs and labels: of each anchor the two samples, or None."""
    contrast = [
        (v, c) for k in (0, 1) for both, of in zip(pairs, labels, strict=True) if both for v, c in [(both[k], of[k])]
    ]
    anchors = [i for i, both in enumerate(pairs) if both]
    total = 0.0
    for i in anchors:
        below = sum(torch.exp(cosine(z[i], v) / t) for v, _ in contrast)
        own = [v for v, c in contrast if c == y[i]]
        total = total - sum(torch.log(torch.exp(cosine(z[i], v) / t) / below) for v in own) / len(own)
    return t / 0.07 * total / len(anchors) if anchors else 0.0


def test_er_aml_is_its_algorithm(mixed):
    tau, gamma, scale = 0.3, 0.7, 0.15
    learner = make("er-aml", memory_size=25, pair_temperature=tau, pair_weight=gamma, temperature=scale)
    paired = []

    def cross_entropy(ref, f, y):
        total = 0.0
        for row, c in zip(f, y, strict=True):
            terms = {k: torch.exp(cosine(row, ref.net.proxies[k]) / scale) for k in ref.seen}
            total = total - torch.log(terms[c] / sum(terms.values()))
        return total / len(y)

    def one_step(ref, memory, step, new):
        y, rows = mixed[new].tolist(), drawn(learner, step, "replay", 10)
        if not rows:
            ref.sgd(ref.gradient(None, None, cross_entropy(ref, ref.net.backbone(normalised(new)), y)))
            return
        x_m, y_m = stack(memory, range(len(memory)))  # rows fill in order
        every, classes = torch.cat([x_m, normalised(new)]), [*y_m.tolist(), *y]
        allowed = [places_allowed(y_m.tolist(), y, i) for i in range(10)]
        u = rng.uniform(3, "pairs", step * 20, 20).reshape(2, 10)
        # A sample without a pair still takes its places in the pass, which has BatchNorm's statistics of all.
        at = [
            [each[k][math.floor(u[k][i] * len(each[k]))] if each[k] else len(every) - 1 for k in (0, 1)]
            for i, each in enumerate(allowed)
        ]
        whole = [bool(positives and negatives) for positives, negatives in allowed]
        paired.append(sum(whole))
        x_r, y_r = stack(memory, rows)
        f = ref.net.backbone(torch.cat([normalised(new), x_r, *(every[[both[k] for both in at]] for k in (0, 1))]))
        f_r, pairs = f[10 : 10 + len(rows)], f[10 + len(rows) :]
        loss = gamma * slow_sup_con_pairs(
            f[:10],
            y,
            [(pairs[i], pairs[10 + i]) if whole[i] else None for i in range(10)],
            [tuple(classes[place] for place in both) for both in at],
            tau,
        )
        ref.sgd(ref.gradient(None, None, loss + cross_entropy(ref, f_r, y_r.tolist())))

    ref, memory = walk(learner, 20, one_step)
    learn(learner, 20)
    assert ref.equals(learner)
    same_memory(memory, learner)
    assert {0, 9, 10} <= set(paired)  # a batch of one class, one with a class that comes once, whole ones


def test_a_place_is_drawn_uniformly_among_those_allowed():
    allowed = torch.tensor([[False, True, False, True, True], [False] * 5, [True] * 5])
    u = torch.linspace(0, 1 - 1e-9, 600, dtype=torch.float64)
    drawn_ = [pick(allowed, torch.full((3,), each)) for each in u.tolist()]
    assert all(there.tolist() == [True, False, True] for there, _ in drawn_)
    places = torch.stack([place for _, place in drawn_])
    assert torch.bincount(places[:, 0], minlength=5).tolist() == pytest.approx([0, 200, 0, 200, 200], abs=2)
    assert torch.bincount(places[:, 2], minlength=5).tolist() == pytest.approx([120] * 5, abs=2)


def test_pairs_are_of_the_classes_of_the_batch_only(mixed):
    learner = make("er-aml", memory_size=25)
    learn(learner, 13)
    new = Batch(normalised(range(130, 140)), mixed[130:140])
    pairs = learner.method.pairs(learner, new, torch.rand(2, 10, dtype=torch.float64))
    assert set(learner.memory.y.tolist()) - {EMPTY} > set(new.y.tolist())
    assert torch.equal(pairs.y[:10], new.y)
    assert set(pairs.y[10:].tolist()) == set(new.y.tolist())
    assert (pairs.y[10:] != new.y).all()


def test_without_a_pair_nothing_is_contrasted():
    z, v = (F.normalize(features(n, seed=n), dim=1) for n in (3, 6))
    value = sup_con_pairs(z, torch.tensor([0, 0, 0]), v, torch.full((6,), EMPTY))
    assert value.item() == 0
    assert (torch.autograd.grad(value, z)[0] == 0).all()


def test_an_anchor_without_a_pair_changes_nothing():
    f = features(12)
    z, v = F.normalize(f[:4], dim=1), F.normalize(f[4:], dim=1)
    y, labels = torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 1, EMPTY, 1, 0, 2, EMPTY])
    kept = [0, 1, 2, 4, 5, 6]
    whole = sup_con_pairs(z, y, v, labels, temperature=0.5)
    assert whole.item() == pytest.approx(sup_con_pairs(z[:3], y[:3], v[kept], labels[kept], temperature=0.5).item())
    pairs = [(v[i], v[4 + i]) for i in range(3)]
    of = [(int(labels[i]), int(labels[4 + i])) for i in range(3)]
    slow = slow_sup_con_pairs(z, y.tolist(), [*pairs, None], [*of, None], 0.5)
    assert whole.item() == pytest.approx(slow.item())
