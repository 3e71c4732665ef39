"""Every method against its algorithm written out slowly, in float64, on a small network with BatchNorm."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.memory import replay_rows, reservoir_slots
from mnemon.learning.method import Batch
from mnemon.learning.methods import methods
from mnemon.learning.methods.agem import project

SHAPE = (2, 5, 5)
X = torch.randint(0, 256, (500, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
Y = torch.arange(500) // 40
Y[:30] = torch.arange(30) % 2  # two classes at first, then one after the other


def body():
    """A convolution with BatchNorm, so that a pass that should leave the running statistics alone can be caught."""
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 6), nn.ReLU())


def make(method, loss=None, **options):
    choice = choose(method, loss, given={"lr": 0.1} | options)
    return Learner(choice.method, choice.objective, Inputs(SHAPE), backbone=body, dtype=torch.float64, seed=3)


def learn(learner, steps, start=0):
    rows = np.arange(start * 10, (start + steps) * 10).reshape(steps, 10)
    learner.learn(X, Y, rows)


def normalised(index):
    return (X[index].double() - 127.5) / 127.5


class Reference:
    """A plain copy of a learner's network, trained by hand."""

    def __init__(self, learner):
        self.net, self.lr, self.seen = copy.deepcopy(learner.net).train(), learner.method.lr, set()

    def losses(self, x, y, net=None):
        """Cross-entropy of each sample over the classes seen; a batch's own BatchNorm statistics."""
        logits = (net or self.net)(x).logits
        out = []
        for row, label in zip(logits, y.tolist(), strict=True):
            classes = sorted(self.seen)
            e = torch.stack([row[c] for c in classes])
            out.append(torch.logsumexp(e, 0) - row[label])
        return torch.stack(out)

    def virtual(self, x, y):
        """A copy of the network after one step on B_n."""
        other = copy.deepcopy(self.net)
        self.losses(x, y, other).mean().backward()
        with torch.no_grad():
            for p in other.parameters():
                p -= self.lr * p.grad
        return other

    def gradient(self, x, y, loss=None):
        value = self.losses(x, y).mean() if loss is None else loss
        return torch.autograd.grad(value, list(self.net.parameters()))

    def sgd(self, gradient):
        with torch.no_grad():
            for p, g in zip(self.net.parameters(), gradient, strict=True):
                p -= self.lr * g

    def equals(self, learner):
        mine, its = self.net.state_dict(), learner.net.state_dict()
        return all(torch.allclose(mine[k].double(), its[k].double(), atol=1e-9) for k in its)


def walk(learner, steps, one_step):
    """Drive the reference by hand: `one_step(ref, memory, step, new)` retrieves, learns and may edit `memory`."""
    ref, memory = Reference(learner), {}
    size = learner.method.memory_size
    for step in range(steps):
        new = list(range(step * 10, step * 10 + 10))
        ref.seen |= set(Y[new].tolist())
        one_step(ref, memory, step, new)
        for sample, slot in zip(new, reservoir_slots(3, step * 10, 1, 10, size)[0].tolist(), strict=True):
            if slot < size:
                memory[slot] = {"x": normalised([sample])[0], "y": int(Y[sample]), "k": 0}
    return ref, memory


def drawn(learner, step, purpose, count):
    filled = min(step * 10, learner.method.memory_size)
    return replay_rows(3, step, np.array([filled]), count, purpose)[0].tolist()


def stack(memory, rows):
    return torch.stack([memory[r]["x"] for r in rows]), torch.tensor([memory[r]["y"] for r in rows])


def joint(ref, new, x_r, y_r):
    x = normalised(new) if x_r is None else torch.cat([normalised(new), x_r])
    y = Y[new] if x_r is None else torch.cat([Y[new], y_r])
    ref.sgd(ref.gradient(x, y))


def flat(gradient):
    return torch.cat([g.flatten() for g in gradient])


# --- A-GEM


def test_projection_vector():
    g, g_ref = (torch.tensor([1.0, -2.0, 3.0]),), (torch.tensor([-1.0, 1.0, 0.5]),)
    assert project(g, g_ref)[0].tolist() == pytest.approx([1 / 3, -4 / 3, 10 / 3])
    assert torch.equal(project(g, (torch.zeros(3),))[0], g[0])
    assert torch.equal(project(g, g)[0], g[0])


def test_agem_is_its_algorithm():
    learner = make("a-gem", memory_size=25)
    dots = []

    def one_step(ref, memory, step, new):
        g = flat(ref.gradient(normalised(new), Y[new]))
        if memory:
            x_ref, y_ref = stack(memory, drawn(learner, step, "replay", 10))
            g_ref = flat(ref.gradient(x_ref, y_ref))
            dots.append(float(g @ g_ref))
            if g @ g_ref < 0:
                g = g - (g @ g_ref) / (g_ref @ g_ref) * g_ref
                assert g @ g_ref > -1e-9  # the memory's loss does not rise, to first order
        sizes = [p.numel() for p in ref.net.parameters()]
        ref.sgd([part.reshape(p.shape) for part, p in zip(g.split(sizes), ref.net.parameters(), strict=True)])

    ref, _ = walk(learner, 25, one_step)
    learn(learner, 25)
    assert ref.equals(learner)  # the running statistics too: both passes of A-GEM move them
    assert min(dots) < 0 < max(dots)


# --- MIR


def mir_rows(ref, memory, rows, new, replay=10):
    """The candidates whose loss rises most, by a virtual copy of the network; its BatchNorm statistics are thrown away."""
    if len(rows) <= replay:
        return rows
    keep = copy.deepcopy(ref.net.state_dict())
    virtual = ref.virtual(normalised(new), Y[new])
    x, y = stack(memory, rows)
    with torch.no_grad():
        rise = ref.losses(x, y, virtual) - ref.losses(x, y)
    ref.net.load_state_dict(keep)
    order = sorted(range(len(rows)), key=lambda i: -float(rise[i]))
    return [rows[i] for i in order[:replay]]


def test_mir_is_its_algorithm():
    learner = make("mir", memory_size=60, candidates=20)

    def one_step(ref, memory, step, new):
        rows = mir_rows(ref, memory, drawn(learner, step, "candidates", 20), new)
        joint(ref, new, *(stack(memory, rows) if rows else (None, None)))

    ref, _ = walk(learner, 20, one_step)
    learn(learner, 20)
    assert ref.equals(learner)


# --- GMED


def edit(ref, memory, rows, new, alpha, beta, rho):
    """x ← x + α ρ^k [ (g₂ − g₁) − β g₁ ], gradients of the mean loss over the batch."""
    keep = copy.deepcopy(ref.net.state_dict())
    virtual = ref.virtual(normalised(new), Y[new])
    x, y = stack(memory, rows)
    x.requires_grad_()
    (g1,) = torch.autograd.grad(ref.losses(x, y).mean(), x)
    (g2,) = torch.autograd.grad(ref.losses(x, y, virtual).mean(), x)
    ref.net.load_state_dict(keep)
    for i, row in enumerate(rows):
        step = alpha * rho ** memory[row]["k"]
        memory[row]["x"] = (x[i] + step * ((g2[i] - g1[i]) - beta * g1[i])).detach()
        memory[row]["k"] += 1


@pytest.mark.parametrize("method", ["gmed-er", "gmed-mir"])
def test_gmed_is_its_algorithm(method):
    alpha, beta, rho = 2.0, 0.05, 0.8
    more = {"candidates": 20} if method == "gmed-mir" else {}
    learner = make(method, memory_size=40, edit_rate=alpha, edit_hold=beta, edit_decay=rho, **more)

    def one_step(ref, memory, step, new):
        if method == "gmed-er":  # edit what is replayed
            rows = drawn(learner, step, "replay", 10)
            if rows:
                edit(ref, memory, rows, new, alpha, beta, rho)
            replayed = stack(memory, rows) if rows else (None, None)
        else:  # replay MIR's choice unedited, edit others for later
            rows = mir_rows(ref, memory, drawn(learner, step, "candidates", 20), new)
            replayed = stack(memory, rows) if rows else (None, None)
            others = drawn(learner, step, "edit", 10)
            if others:
                edit(ref, memory, others, new, alpha, beta, rho)
        joint(ref, new, *replayed)

    ref, memory = walk(learner, 15, one_step)
    learn(learner, 15)
    assert ref.equals(learner)
    state = learner.state()
    expected = torch.stack([memory[r]["x"] for r in range(40)])
    assert torch.allclose(state["memory.x"], expected, atol=1e-9)
    assert state["memory.edits"].tolist() == [memory[r]["k"] for r in range(40)]
    assert max(row["k"] for row in memory.values()) > 1


# --- ER-ACE and hybrid-ace


@pytest.mark.parametrize("method", ["er-ace", "hybrid-ace"])
def test_ace_is_its_formula(method):
    learner = make(method, memory_size=30)
    learn(learner, 12)
    new, old = list(range(120, 130)), [1, 2, 45, 46, 90, 91]
    learner.seen[Y[new]] = True
    batch = Batch(normalised(new + old), Y[new + old])
    out = learner.net(batch.x)
    value = learner.objective(out, batch.y, learner.seen, len(new))
    expected = 0.0
    for part, classes in ((range(10), sorted(set(Y[new].tolist()))), (range(10, 16), [0, 1, 2, 3])):
        rows = [
            F.cross_entropy(out.logits[[i]][:, classes], torch.tensor([classes.index(int(batch.y[i]))])) for i in part
        ]
        expected += sum(rows) / len(rows)
    if method == "hybrid-ace":
        expected += choose("er", "ms").objective(out, batch.y, learner.seen, 10)
    assert value.item() == pytest.approx(expected.item(), abs=1e-10)
    gradients = [torch.autograd.grad(v, learner.parameters, retain_graph=True) for v in (value, expected)]
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(*gradients, strict=True))


def test_ace_without_replay_is_cross_entropy_over_the_batch():
    learner = make("er-ace", memory_size=30)
    learn(learner, 5)
    new = [100, 101, 150]
    value = learner.descend(Batch(normalised(new), Y[new]), 3).loss
    logits = learner.net(normalised(new)).logits[:, [2, 3]]
    assert value.item() == pytest.approx(F.cross_entropy(logits, torch.tensor([0, 0, 1])).item())


# --- all of them


SCORING = [name for name, method in methods().items() if method.scores]


@pytest.mark.parametrize("name", SCORING)
@pytest.mark.parametrize("loss", ["ce", "hybrid"])
def test_retrieving_leaves_parameters_and_running_statistics_as_they_were(name, loss):
    learner = make(name, loss, memory_size=60)
    learn(learner, 10)
    before = copy.deepcopy(learner.net.state_dict())
    (draws,) = learner._draws(Y[None, 100:110].numpy())
    learner.method.retrieve(learner, Batch(normalised(range(100, 110)), Y[100:110]), draws)
    assert all(torch.equal(before[k], v) for k, v in learner.net.state_dict().items())
    assert learner.net.training


@pytest.mark.parametrize("name", SCORING)
def test_a_loss_without_a_value_for_one_sample_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} scores single samples, for which the loss ms has no value"):
        choose(name, "ms")


def test_the_seams_a_method_changes():
    changes = {name: method.changes() for name, method in methods().items()}
    assert changes["er"] == []
    assert changes["mir"] == ["retrieve"]
    assert changes["a-gem"] == ["gradient"]
    assert changes["gmed-er"] == ["retrieve", "write"]
    assert changes["hybrid"] == ["loss hybrid", "classifier ncm"]
    assert changes["fine-tune"] == ["no memory"]


@pytest.mark.parametrize("name", methods())
def test_a_method_explains_itself(name):
    method = methods()[name]
    page = Path(__file__).parents[1] / "docs" / "methods" / f"{name}.md"
    assert f"mnemon run --method {name} " in page.read_text()
    assert method.summary
    assert method.citation
    assert method.cost
    assert method.__doc__


# A change of behaviour must not slip in unseen: Σ|p| over the backbone after 50 float64 steps. Whoever changes one
# of these on purpose measures the method's cells again and says so in the changelog.
GOLDEN = {
    "a-gem": 33.1344188433,
    "er": 32.6920221924,
    "er-ace": 33.9204811890,
    "fine-tune": 33.0041510663,
    "gmed-er": 32.6823104134,
    "gmed-mir": 33.7341204042,
    "hybrid": 32.8860486034,
    "hybrid-ace": 32.9066298285,
    "iid-offline": 33.0041510663,
    "iid-online": 33.0041510663,
    "mir": 33.6493938889,
}


@pytest.mark.parametrize("name", methods())
def test_golden(name):
    options = {"memory_size": 60} if methods()[name].replays else {}
    learner = make(name, **options)
    learn(learner, 50)
    learner.check()
    total = sum(p.abs().sum().item() for p in learner.net.backbone.parameters())
    assert total == pytest.approx(GOLDEN[name], rel=1e-7)
