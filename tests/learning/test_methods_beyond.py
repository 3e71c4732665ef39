"""DER++, SCR and LAS against their algorithms written out slowly, in float64."""

import math

import pytest
import torch
import torch.nn.functional as F

from by_hand import X, Y, drawn, entry, learn, make, normalised, same_memory, stack, walk
from mnemon import MnemonError, rng
from mnemon.learning.augmentation import SHIFT, repeated_border
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.losses import sup_con
from mnemon.learning.memory import reservoir_slots
from mnemon.learning.network import Output

# --- DER++


def test_derpp_is_its_algorithm():
    a, b = 0.3, 0.7
    learner = make("der++", memory_size=40, logit_weight=a, label_weight=b)
    logits_then = {}  # sample → {class: logit} of the step that learned it

    def one_step(ref, memory, step, new):
        draws = [drawn(learner, step, purpose, 10) for purpose in ("replay", "candidates")]
        parts = [stack(memory, rows) for rows in draws if rows]
        x = torch.cat([normalised(new), *(x for x, _ in parts)])
        y = torch.cat([Y[new], *(y for _, y in parts)])
        out = ref.net(x).logits  # one pass
        classes = sorted(ref.seen)
        losses = [-torch.log_softmax(row[classes], 0)[classes.index(int(c))] for row, c in zip(out, y, strict=True)]
        loss = sum(losses[:10]) / 10
        if parts:
            squares = [
                (out[10 + i, c] - value) ** 2
                for i, row in enumerate(draws[0])
                for c, value in logits_then[memory[row]["sample"]].items()
            ]
            loss = loss + a * sum(squares) / len(squares) + b * sum(losses[20:]) / 10
        for i, sample in enumerate(new):
            logits_then[sample] = {c: out[i, c].item() for c in classes}
        ref.sgd(ref.gradient(None, None, loss))

    ref, memory = walk(learner, 30, one_step)
    learn(learner, 30)
    assert ref.equals(learner)
    same_memory(memory, learner)
    stored = learner.state()["memory.logits"]
    for row, held in memory.items():
        expected = logits_then[held["sample"]]
        assert {c: pytest.approx(v) for c, v in expected.items()} == {
            c: v for c, v in enumerate(stored[row].tolist()) if v > -math.inf
        }
    assert (
        len({len(logits_then[held["sample"]]) for held in memory.values()}) > 1
    )  # some came when fewer classes were seen


def test_stored_logits_grow_with_the_classes():
    learner = make("der++", memory_size=40)
    learn(learner, 10)
    before = learner.state()["memory.logits"].clone()
    learner.grow(40)
    after = learner.state()["memory.logits"]
    assert torch.equal(after[:, : before.shape[1]], before)
    assert (after[:, before.shape[1] :] == -math.inf).all()
    learn(learner, 10, start=10)
    learner.check()


def test_derpp_needs_logits():
    with pytest.raises(MnemonError, match=r"der\+\+ needs a softmax head, which the loss hybrid does not train"):
        choose("der++", "hybrid")


# --- SCR


def slow_sup_con(z, y, t):
    total, anchors = 0.0, 0
    for i in range(len(y)):
        positives = [p for p in range(len(y)) if p != i and y[p] == y[i]]
        if not positives:
            continue
        anchors += 1
        below = sum(torch.exp(z[i] @ z[a] / t) for a in range(len(y)) if a != i)
        total = total - sum(torch.log(torch.exp(z[i] @ z[p] / t) / below) for p in positives) / len(positives)
    return total / max(anchors, 1)


@pytest.mark.parametrize("y", [[0, 0, 1, 1, 1, 2], [0, 1, 2, 3, 4, 4], [1, 1, 1, 1, 1, 1]])
def test_sup_con_is_its_formula(y):
    f = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y = torch.tensor(y)
    values = [
        loss(F.normalize(f, dim=1), y)
        for loss in (lambda z, y: sup_con(z, y, temperature=0.2), lambda z, y: slow_sup_con(z, y, 0.2))
    ]
    assert values[0].item() == pytest.approx(values[1].item())
    gradients = [torch.autograd.grad(v, f, retain_graph=True)[0] for v in values]
    assert torch.allclose(*gradients)


def test_sup_con_equals_pytorch_metric_learning():
    from pytorch_metric_learning.losses import SupConLoss

    z = F.normalize(torch.randn(20, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    y = torch.arange(20) % 7
    assert sup_con(z, y, temperature=0.1).item() == pytest.approx(SupConLoss(temperature=0.1)(z, y).item(), rel=1e-5)


def test_sup_con_of_samples_without_a_positive_is_zero():
    z = F.normalize(torch.randn(3, 4), dim=1).requires_grad_()
    value = sup_con(z, torch.tensor([0, 1, 2]))
    assert value.item() == 0
    assert (torch.autograd.grad(value, z)[0] == 0).all()


@pytest.mark.parametrize("views", [1, 2])
def test_scr_is_its_algorithm(views):
    learner = make("scr", memory_size=25, views=views, temperature=0.3)

    def one_step(ref, memory, step, new):
        rows = drawn(learner, step, "replay", 10)
        parts = [(normalised(new), Y[new])] + ([stack(memory, rows)] if rows else [])
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        if views == 2:
            u = torch.from_numpy(rng.uniform(3, "views", step * 20 * 3, len(y) * 3)).reshape(len(y), 3)
            x, y = torch.cat([x, repeated_border(x, u)]), torch.cat([y, y])
        f = ref.net.backbone(x)
        h = F.relu(f @ ref.net.layers[0].weight.T + ref.net.layers[0].bias)
        e = h @ ref.net.layers[2].weight.T + ref.net.layers[2].bias
        assert e.shape[1] == 128
        loss = slow_sup_con(e / e.norm(dim=1, keepdim=True), y.tolist(), 0.3)
        ref.sgd(ref.gradient(None, None, loss))

    ref, memory = walk(learner, 12, one_step)
    learn(learner, 12)
    assert ref.equals(learner)
    same_memory(memory, learner)


def test_second_view_shifts_and_mirrors():
    x = torch.arange(2 * 3 * 12 * 10, dtype=torch.float64).reshape(2, 3, 12, 10)
    still = (SHIFT + 0.5) / (2 * SHIFT + 1)  # the middle of the range: no shift
    assert torch.equal(repeated_border(x, torch.tensor([[still, still, 0.9]] * 2)), x)
    assert torch.equal(repeated_border(x, torch.tensor([[still, still, 0.1]] * 2)), x.flip(3))
    moved = repeated_border(x, torch.tensor([[0.0, still, 0.9], [still, 0.999, 0.9]]))
    for i in range(12):
        for j in range(10):
            assert moved[0, 1, i, j] == x[0, 1, max(i - SHIFT, 0), j]  # the border is repeated
            assert moved[1, 2, i, j] == x[1, 2, i, min(j + SHIFT, 9)]


def test_second_views_need_images():
    choice = choose("scr", given={"views": 2})
    with pytest.raises(MnemonError, match=r"a second view needs images .* not samples of shape \(7,\)"):
        Learner(choice.method, choice.objective, Inputs((7,)))


def test_means_of_unit_length():
    """SCR's rule against a loop: the class whose re-normalised mean is nearest."""
    learner = make("scr", memory_size=60)
    learn(learner, 20)
    y = learner.memory.y[:60]
    with learner.evaluating():
        z = F.normalize(learner.net(normalised(range(200, 300))).features, dim=1)
        stored = F.normalize(learner.net(learner.replay(torch.arange(60)).x).features, dim=1)
    means = {c: F.normalize(stored[y == c].mean(0), dim=0) for c in set(y.tolist())}
    expected = [min(means, key=lambda c: float((row - means[c]).norm())) for row in z]
    (scores,) = learner.scores(X[200:300], choose("scr").classifiers)
    somewhere = z.norm(dim=1) > 0  # features of 0 are equally far from all
    assert somewhere.sum() > 50
    assert torch.equal(scores.argmax(1)[somewhere], torch.tensor(expected)[somewhere])


# --- LAS


def test_las_is_its_algorithm():
    decay, weight = 0.8, 1.5
    learner = make("las", memory_size=25, prior_decay=decay, prior_weight=weight)
    counts = [0.0] * learner.net.capacity

    def one_step(ref, memory, step, new):
        rows = drawn(learner, step, "replay", 10)
        parts = [(normalised(new), Y[new])] + ([stack(memory, rows)] if rows else [])
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        for c in range(len(counts)):
            counts[c] = decay * counts[c] + (1 - decay) * y.tolist().count(c) / len(y)
        prior = [max(count / sum(counts), 1e-4) for count in counts]
        losses = []
        for row, label in zip(ref.net(x).logits, y.tolist(), strict=True):
            e = {c: torch.exp(row[c] + weight * math.log(prior[c])) for c in ref.seen}
            losses.append(-torch.log(e[label] / sum(e.values())))
        ref.sgd(ref.gradient(None, None, sum(losses) / len(losses)))
        ref.net.prior.copy_(torch.tensor(counts, dtype=torch.float64))

    ref, memory = walk(learner, 40, one_step)
    learn(learner, 40)
    assert ref.equals(learner)
    same_memory(memory, learner)
    assert min(c / sum(counts) for c in counts if c) < 1e-2  # classes fade


def test_a_class_long_gone_keeps_a_share_of_one_in_ten_thousand():
    objective = choose("las").objective
    out = Output(torch.zeros(1, 1), logits=torch.zeros(1, 3), prior=torch.tensor([0.0, 1e-9, 2.0]))
    adjusted = objective.adjusted(out, out.prior, torch.ones(3, dtype=torch.bool))
    assert adjusted[0].tolist() == pytest.approx([math.log(1e-4), math.log(1e-4), 0.0], abs=1e-6)


def test_las_predicts_with_plain_logits():
    learner = make("las", memory_size=25)
    learn(learner, 20)
    x = torch.randint(0, 256, (30, 2, 5, 5), dtype=torch.uint8)
    (scores,) = learner.scores(x, choose("las").classifiers)
    with learner.evaluating():
        logits = learner.net(learner.normalise(x)).logits
    assert torch.equal(scores[:, learner.seen], logits[:, learner.seen])


def test_derpp_writes_where_a_reservoir_does():
    learner = make("der++", memory_size=15)
    learn(learner, 8)
    held = {}
    for step in range(8):
        for sample, slot in zip(
            range(step * 10, step * 10 + 10), reservoir_slots(3, step * 10, 1, 10, 15)[0], strict=True
        ):
            if slot < 15:
                held[int(slot)] = entry(sample)
    same_memory(held, learner)
