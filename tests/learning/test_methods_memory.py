"""The methods that choose what the memory holds (GSS, CoPE, ASER) against their algorithms in plain loops, in float64."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from by_hand import X, Y, drawn, entry, joint, learn, make, normalised, planned, same_memory, stack, walk
from mnemon import rng
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.losses import pseudo_prototypical
from mnemon.learning.memory import balanced_order, class_ranks, class_table, row_keys, write_keys
from mnemon.learning.methods import gss
from mnemon.learning.methods.cope import quotas
from mnemon.learning.shapley import knn_shapley


def replay_and_learn(learner):
    def one_step(ref, memory, step, new):
        rows = drawn(learner, step, "replay", 10)
        joint(ref, new, *(stack(memory, rows) if rows else (None, None)))

    return one_step


# --- GSS


def gradient_in_eval_mode(ref, x, y):
    net = copy.deepcopy(ref.net).eval()
    loss = ref.losses(x, y, net).mean()
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))])


def cosine(a, b):
    return float(a @ b / (a.norm() * b.norm()))


@pytest.mark.parametrize(("size", "steps"), [(130, 30), (35, 20)])
def test_gss_is_its_algorithm(size, steps):
    learner = make("gss", memory_size=size)
    events = {"discarded": 0, "replaced": 0, "kept": 0}

    def write(ref, memory, step, new):
        if not memory:
            memory.update({i: entry(sample) | {"score": 0.1} for i, sample in enumerate(new)})
            return
        filled = len(memory)
        batch = min(10, filled)
        shuffled = drawn(learner, step, "candidates", 100)
        G = [
            gradient_in_eval_mode(ref, *stack(memory, shuffled[k * batch : (k + 1) * batch]))
            for k in range(min(10, filled // batch))
        ]
        score = [max(cosine(gradient_in_eval_mode(ref, normalised([i]), Y[[i]]), g) for g in G) for i in new]
        if filled < size:
            for i, sample in list(enumerate(new))[: size - filled]:
                memory[filled + i] = entry(sample) | {"score": score[i]}
            return
        if max(cosine(gradient_in_eval_mode(ref, normalised(new), Y[new]), g) for g in G) >= 0:
            events["discarded"] += 1
            return
        s = [memory[m]["score"] for m in range(size)]
        weight = [(v - min(s)) / (max(s) - min(s) + 0.01) + 1e-12 for v in s]
        u = row_keys(3, step, 1, 1, size)[0, 0]
        arrival = [-math.log(u[m]) / weight[m] for m in range(size)]  # exponential clocks: the same draw as Gumbel keys
        slots = sorted(range(size), key=lambda m: arrival[m])[:10]
        accept = rng.uniform(3, "accept", step * 10, 10)
        for i, (sample, m) in enumerate(zip(new, slots, strict=True)):
            old, fresh = (s[m] + 1) / 2, (score[i] + 1) / 2
            if accept[i] < old / (old + fresh):
                memory[m] = entry(sample) | {"score": score[i]}
            events["replaced" if memory[m]["sample"] == sample else "kept"] += 1

    ref, memory = walk(learner, steps, replay_and_learn(learner), write)
    learn(learner, steps)
    assert ref.equals(learner)
    same_memory(memory, learner)
    assert learner.state()["memory.score"].tolist() == pytest.approx([memory[m]["score"] for m in range(size)])
    assert min(events.values()) > 0, events  # each branch was taken


def test_gss_spares_the_row_with_the_lowest_score():
    """It has no weight in the draw, whatever the keys."""
    learner = make("gss", memory_size=60)
    learn(learner, 6)
    learner.memory.extra["score"][:60] = torch.linspace(-0.5, 0.9, 60, dtype=torch.float64)
    held = learner.memory.x[0].clone()
    learn(learner, 40, start=6)
    assert torch.equal(learner.memory.x[0], held)
    assert learner.memory.extra["score"][0] == -0.5


def test_gss_with_a_memory_smaller_than_a_batch():
    learner = make("gss", memory_size=4)
    learn(learner, 20)
    learner.check()
    assert (learner.memory.y[:4] >= 0).all()


def test_gss_scoring_changes_neither_parameters_nor_running_statistics():
    learner = make("gss", memory_size=60)
    learn(learner, 10)
    plan = planned(learner, Y[None, 100:110])
    done = learner.method.gradient(learner, learner.replay(torch.arange(10)), None)  # moves the statistics itself
    before = copy.deepcopy(learner.net.state_dict())
    learner.method.write(learner, X[100:110], Y[100:110], plan, done)
    assert all(torch.equal(before[k], v) for k, v in learner.net.state_dict().items())
    assert learner.net.training


# --- drawing by class


@given(st.lists(st.integers(-1, 4), min_size=1, max_size=40), st.integers(0, 999))
def test_ranks_and_tables_by_class(classes, seed):
    y = torch.tensor(classes)
    keys = torch.from_numpy(rng.uniform(seed, "rows", 0, len(y)))
    ranks = class_ranks(y, keys)
    for c in set(classes):
        rows = [i for i in range(len(y)) if classes[i] == c]
        assert [int(ranks[i]) for i in sorted(rows, key=lambda i: float(keys[i]))] == list(range(len(rows)))
    table = class_table(y, ranks, 1, 2, 5)  # the second and third row of each class
    for c in range(5):
        rows = sorted((i for i in range(len(y)) if classes[i] == c), key=lambda i: float(keys[i]))[1:3]
        assert table[2 * c : 2 * c + 2].tolist() == rows + [len(y)] * (2 - len(rows))


def test_a_balanced_draw_takes_classes_uniformly_while_they_last():
    """Nine rows of class 0, two of class 1, one of class 2, a free one: the law of "draw a class, then a row of it"."""
    y = torch.tensor([0] * 9 + [1] * 2 + [2] + [-1])
    n = 20_000
    keys = torch.from_numpy(row_keys(0, 0, n, 2, len(y)))
    orders = torch.stack([balanced_order(y, k) for k in keys[:n]])
    assert (orders.sort(1).values == torch.arange(len(y))).all()
    assert (orders[:, -1] == 12).all()  # the free row comes last
    classes = y[orders]
    first = torch.bincount(classes[:, 0], minlength=3) / n
    assert (first - 1 / 3).abs().max() < 0.012
    after_two = classes[classes[:, 0] == 2][:, 1]  # class 2 is used up: the others share
    assert abs((after_two == 0).double().mean() - 0.5) < 0.02
    assert torch.bincount(orders[classes[:, 0] == 0][:, 0], minlength=9).min() > 0.08 * n / 3  # rows of a class alike


# --- CoPE


def circle(degrees):
    a = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([a.cos(), a.sin()], 1)


@pytest.mark.parametrize(("temperature", "value"), [(0.1, 2.730332), (0.5, 2.652165)])
def test_cope_loss_vector(temperature, value):
    f, y = circle([0.0, 35, 70, 40, 60, 80, 20]), torch.tensor([0, 0, 0, 1, 1, 2, 3])
    loss = pseudo_prototypical(
        f, y, circle([10.0, 50, 80, 350]), torch.ones(4, dtype=torch.bool), temperature=temperature
    )
    assert loss.item() == pytest.approx(value, abs=1e-6)


def slow_cope(f, y, p, seen, t):
    """Attract and repel, term by term."""
    total = 0.0

    def P(c, q, x):
        e = torch.exp(q @ x / t)
        return e / (e + sum(torch.exp(p[k] @ x / t) for k in seen if k != c))

    for i, c in enumerate(y):
        peers = [j for j in range(len(y)) if y[j] == c and j != i]
        pull = P(c, p[c], f[i]) + sum(P(c, f[j].detach(), f[i]) for j in peers)
        total = total - torch.log(pull / (len(peers) + 1))
        for j in range(len(y)):
            if y[j] != c:
                total = total - torch.log(1 - (P(c, f[i], f[j]) + P(c, p[c], f[j])) / 2)
    return total / len(y)


@pytest.mark.parametrize("y", [[0, 0, 2, 1, 2, 2], [1, 1, 1, 1, 1, 1]])
def test_cope_loss_is_its_formula(y):
    generator = torch.Generator().manual_seed(0)
    raw = torch.randn(6, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    p = F.normalize(torch.rand(5, 4, dtype=torch.float64, generator=generator), dim=1)
    seen = torch.tensor([True, True, True, False, True])
    f = F.normalize(raw, dim=1)
    fast = pseudo_prototypical(f, torch.tensor(y), p, seen, temperature=0.2)
    slow = slow_cope(f, y, p, [0, 1, 2, 4], 0.2)
    assert fast.item() == pytest.approx(slow.item())
    assert torch.allclose(*(torch.autograd.grad(v, raw, retain_graph=True)[0] for v in (fast, slow)))


def test_cope_does_nothing_while_one_class_was_seen():
    learner = make("cope", memory_size=30)
    before = copy.deepcopy(learner.net.state_dict())
    learner.learn(X, torch.zeros_like(Y), np.arange(30).reshape(3, 10))
    learner.check()
    after = learner.net.state_dict()
    assert all(torch.equal(before[n], after[n]) for n in learner.names)
    assert not torch.equal(before["prototypes"][0], after["prototypes"][0])  # which still follows its class


@pytest.mark.parametrize("size", [40, 7])
def test_cope_is_its_algorithm(size):
    """Class-balanced replay, loss, prototypes from the features before the step, quotas that shrink; 7 rows for 13 classes
    too."""
    m, t = 0.9, 0.5
    learner = make("cope", memory_size=size, momentum=m, temperature=t, embedding_size=5)
    p0 = learner.net.prototypes.clone()
    assert torch.allclose(p0.norm(dim=1), torch.ones(len(p0), dtype=torch.float64))

    def one_step(ref, memory, step, new):
        keys, clocks = row_keys(3, step, 1, 2, size)[0], {}
        gaps = iter(-np.log1p(-keys[1]))
        for _ in range(size - len(memory)):
            next(gaps)  # free rows come first in the order of classes
        for c in sorted({held["y"] for held in memory.values()}):
            time = 0.0
            for row in sorted((r for r in memory if memory[r]["y"] == c), key=lambda r: keys[0, r]):
                time += next(gaps)
                clocks[row] = time
        rows = sorted(clocks, key=clocks.get)[: min(10, size)]
        parts = [(normalised(new), Y[new])] + ([stack(memory, rows)] if rows else [])
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts]).tolist()
        e = ref.net.layers(ref.net.backbone(x))
        f = e / e.norm(dim=1, keepdim=True)
        loss = slow_cope(f, y, ref.net.prototypes.clone(), sorted(ref.seen), t)
        if len(ref.seen) > 1:
            ref.sgd(ref.gradient(None, None, loss))
        for c in set(y):
            mean = sum(f[i].detach() for i in range(len(y)) if y[i] == c) / y.count(c)
            ref.net.prototypes[c] = m * ref.net.prototypes[c] + (1 - m) * mean

    def write(ref, memory, step, new):
        key = dict(zip(new, write_keys(3, step * 10, 1, 10)[0], strict=True))
        offered = [(held["y"], held["key"], row) for row, held in memory.items()] + [
            (int(Y[s]), key[s], f"new {s}") for s in new
        ]
        quota = {c: size // len(ref.seen) + (i < size % len(ref.seen)) for i, c in enumerate(sorted(ref.seen))}
        kept = {who for c in ref.seen for _, _, who in sorted(o for o in offered if o[0] == c)[: quota[c]]}
        for row in [r for r in memory if r not in kept]:
            del memory[row]
        for sample in new:
            if f"new {sample}" in kept:
                memory[min(set(range(size)) - set(memory))] = entry(sample) | {"key": key[sample]}
        assert max(quota.values()) - min(quota.values()) <= 1
        held = [sum(row["y"] == c for row in memory.values()) for c in ref.seen]
        assert sum(held) <= size

    ref, memory = walk(learner, 40, one_step, write)
    learn(learner, 40)
    assert ref.equals(learner)
    assert torch.allclose(ref.net.prototypes, learner.net.prototypes)
    same_memory(memory, learner)


@given(st.integers(1, 60), st.integers(0, 12))
def test_quotas(size, classes):
    """The same for arrays and tensors; they fill the memory, never differ by more than one, and never grow again."""
    seen = torch.zeros(16, dtype=torch.bool)
    seen[torch.arange(classes) + 2] = True
    mine, more = quotas(seen, size), seen.clone()
    assert (quotas(seen.numpy(), size) == mine.numpy()).all()
    assert (mine[~seen] == 0).all()
    if classes:
        assert mine.sum() == size
        assert mine[seen].max() - mine[seen].min() <= 1
        more[15] = True
        assert (quotas(more, size)[seen] <= mine[seen]).all()


def test_a_class_of_the_cope_memory_is_a_uniform_sample_of_it():
    """Class 0 comes first, 60 times; after four more classes its rows are any 4 of them alike."""
    held = np.zeros(60)
    y = torch.cat([torch.zeros(60), 1 + torch.arange(40) // 10]).long()
    x = torch.arange(100, dtype=torch.uint8)[:, None]
    for seed in range(300):
        choice = choose("cope", given={"memory_size": 20, "embedding_size": 2})
        learner = Learner(choice.method, choice.objective, Inputs((1,)), backbone=torch.nn.Identity(), seed=seed)
        learner.learn(x, y, np.arange(100).reshape(10, 10))
        assert torch.bincount(learner.memory.y[:20]).tolist() == [4, 4, 4, 4, 4]
        held[learner.memory.x[:20, 0][learner.memory.y[:20] == 0].numpy()] += 1
    assert held.sum() == 1200
    assert ((held - 20) ** 2 / 20).sum() < 98  # χ² with 59 degrees of freedom, p = 0.001


# --- ASER


def test_shapley_vector():
    distance = torch.tensor([[0.1, 0.5, 1, 4, 6], [4.9, 4.5, 4, 1, 1]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 1, 0])
    s = knn_shapley(distance, labels == torch.tensor([[0], [1]]), 3)
    assert s[0].tolist() == pytest.approx([0.283333, -0.05, 0.283333, -0.05, 0.2], abs=1e-6)
    assert s[1].tolist() == pytest.approx([0, 0.25, -0.083333, 0.25, -0.083333], abs=1e-6)


def slow_shapley(evaluation, candidates, k):
    """[(f, y), …] twice → s[e][j] by the recursion."""
    table = []
    for f, y in evaluation:
        n = len(candidates)
        order = sorted(range(n), key=lambda j: float((f - candidates[j][0]).norm()))
        m = [float(candidates[j][1] == y) for j in order]
        s = [0.0] * n
        s[n - 1] = m[n - 1] * min(k, n) / (n * k)
        for i in range(n - 1, 0, -1):  # i counts from 1
            s[i - 1] = s[i] + (m[i - 1] - m[i]) / k * min(k, i) / i
        table.append([s[order.index(j)] for j in range(n)])
    return table


@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 6), st.integers(1, 5), st.integers(0, 999))
def test_shapley_rows_sum_to_the_share_of_right_neighbours(e, n, absent, k, seed):
    u = torch.from_numpy(rng.uniform(seed, "rows", 0, (e + n) * 3)).reshape(e + n, 3)
    labels = (u[:, 0] * 3).long()
    distance = torch.cdist(u[:e, 1:], u[e:, 1:])
    match = labels[:e, None] == labels[e:]
    s = knn_shapley(distance, match, k)
    nearest = match.gather(1, distance.argsort(1))[:, :k]
    assert torch.allclose(s.sum(1), nearest.double().sum(1) / k)
    slow = slow_shapley(
        [(u[i, 1:], int(labels[i])) for i in range(e)], [(u[i, 1:], int(labels[i])) for i in range(e, e + n)], k
    )
    assert torch.allclose(s, torch.tensor(slow, dtype=torch.float64))
    padded = knn_shapley(F.pad(distance, (0, absent), value=math.inf), F.pad(match, (0, absent)), k)
    assert torch.allclose(padded, F.pad(s, (0, absent)))  # places that hold nobody change nothing


@pytest.mark.parametrize(("size", "per_class"), [(60, 3), (30, 9)])
def test_aser_is_its_algorithm(size, per_class):
    k = 3
    learner = make("aser", memory_size=size, per_class=per_class, neighbours=k)
    entered, short = [], []

    def features(ref, x):
        with torch.no_grad():
            return copy.deepcopy(ref.net).eval().backbone(x)

    def by_class(memory, keys, first):
        """Rows of rank first … first + n_c − 1 of each class."""
        classes = sorted({held["y"] for held in memory.values()})
        ordered = {c: sorted((r for r in memory if memory[r]["y"] == c), key=lambda r: keys[r]) for c in classes}
        return [r for c in classes for r in ordered[c][first : first + per_class]]

    def of_rows(ref, memory, rows):
        x, y = stack(memory, rows)
        return list(zip(features(ref, x), y.tolist(), strict=True))

    def one_step(ref, memory, step, new):
        if step * 10 < size:
            rows = drawn(learner, step, "replay", 10)
            joint(ref, new, *(stack(memory, rows) if rows else (None, None)))
            return
        keys = row_keys(3, step, 1, 3, size)[0, 0]
        cand, others = by_class(memory, keys, 0), by_class(memory, keys, per_class)
        points = of_rows(ref, memory, cand)
        came = list(zip(features(ref, normalised(new)), Y[new].tolist(), strict=True))
        adversarial = np.mean(slow_shapley(came, points, k), 0)
        cooperative = np.mean(slow_shapley(of_rows(ref, memory, others), points, k), 0) if others else 0.0
        value = dict(zip(cand, cooperative - adversarial, strict=True))
        rows = sorted(cand, key=lambda r: (-round(value[r], 12), keys[r]))[:10]
        rows += sorted(set(memory) - set(cand), key=lambda r: -keys[r])[
            : 10 - len(rows)
        ]  # where candidates are too few
        short.append(len(cand) < 10)
        joint(ref, new, *stack(memory, rows))

    def write(ref, memory, step, new):
        if step * 10 < size:
            for sample in new[: size - len(memory)]:
                memory[len(memory)] = entry(sample)
            return
        keys = row_keys(3, step, 1, 3, size)[0]
        judges = by_class(memory, keys[1], 0)
        cand = sorted(set(memory) - set(judges), key=lambda r: keys[2, r])[: per_class * len(ref.seen)]
        u = rng.uniform(3, "accept", step, 1)[0] / len(ref.seen)
        came = list(zip(features(ref, normalised(new)), Y[new].tolist(), strict=True))
        share = {c: sum(held["y"] == c for held in memory.values()) / size for c in ref.seen}
        boosted = [point for point in came if share[point[1]] < u]
        candidates = (of_rows(ref, memory, cand) if cand else []) + came
        value = np.sum(slow_shapley(of_rows(ref, memory, judges) + boosted, candidates, k), 0)
        lowest = set(sorted(range(len(candidates)), key=lambda j: round(value[j], 12))[:10])
        leaving = sorted(cand[j] for j in lowest if j < len(cand))
        entering = [sample for i, sample in enumerate(new) if len(cand) + i not in lowest]
        assert len(leaving) == len(entering)
        entered.append(len(entering))
        for row, sample in zip(leaving, entering, strict=True):
            memory[row] = entry(sample)

    ref, memory = walk(learner, 30, one_step, write)
    learn(learner, 30)
    assert ref.equals(learner)
    same_memory(memory, learner)
    assert 0 < sum(entered) < 10 * len(entered)
    assert any(short) == (per_class == 3)


def test_products_in_pieces_are_the_products():
    a, b = torch.randn(10, 1001), torch.randn(7, 1001)
    torch.testing.assert_close(gss.in_pieces(a, b), a @ b.T, rtol=1e-4, atol=1e-4)
    runs = torch.vmap(gss.in_pieces)(torch.stack([a, -a]), torch.stack([b, b]))
    torch.testing.assert_close(runs[1], -(a @ b.T), rtol=1e-4, atol=1e-4)


def test_more_classes_than_expected_may_come():
    learner = make("aser", memory_size=60)
    capacity = learner.net.capacity
    assert learner.possible_classes == capacity
    learner.expect(6)
    assert learner.possible_classes == 6
    learner.grow(7)
    assert learner.possible_classes == capacity
    learner.grow(capacity + 1)
    assert learner.possible_classes == learner.net.capacity == 2 * capacity


def test_a_restored_learner_expects_as_many_classes_as_before():
    """Else the tables of ASER would have another shape, and the run that goes on other roundings."""
    whole, cut, again = (make("aser", memory_size=60) for _ in range(3))
    for learner in (whole, cut, again):
        learner.expect(int(Y.max()) + 1)
    learn(whole, 30)
    learn(cut, 12)
    again.restore({name: tensor.clone() for name, tensor in cut.state().items()}, steps=cut.steps, samples=cut.samples)
    assert again.possible_classes == int(Y.max()) + 1
    learn(again, 18, start=12)
    assert all(torch.equal(tensor, again.state()[name]) for name, tensor in whole.state().items())


def test_aser_looks_at_no_rows_for_classes_that_cannot_come():
    looked, learners = [], [make("aser", memory_size=60, per_class=3) for _ in range(2)]
    learners[1].expect(int(Y.max()) + 1)  # as a run does, which knows its stream
    for learner in learners:
        passed = []
        hook = learner.net.register_forward_pre_hook(
            lambda net, args, passed=passed: passed.append(0 if net.training else len(args[0]))
        )
        learn(learner, 30)
        hook.remove()
        looked.append(max(passed))
    assert looked[1] == learners[1].possible_classes * 3 * 2 + 10 < looked[0]
    assert torch.equal(learners[0].memory.x, learners[1].memory.x)
    for mine, its in zip(learners[0].parameters, learners[1].parameters, strict=True):
        torch.testing.assert_close(mine, its)


def test_aser_scoring_changes_neither_parameters_nor_running_statistics():
    learner = make("aser", memory_size=60)
    learn(learner, 10)
    plan = planned(learner, Y[None, 100:110])
    before = copy.deepcopy(learner.net.state_dict())
    new = learner.replay(torch.arange(10))
    learner.method.retrieve(learner, new, plan)
    learner.method.write(learner, X[100:110], Y[100:110], plan, None)
    assert all(torch.equal(before[k], v) for k, v in learner.net.state_dict().items())
    assert learner.net.training
