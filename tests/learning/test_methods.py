"""Every method against its algorithm written out slowly, in float64, on a small network with BatchNorm."""

import contextlib
import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from by_hand import X, Y, drawn, flat, joint, learn, make, normalised, planned, stack, walk
from mnemon import MnemonError
from mnemon.learning.build import choose
from mnemon.learning.classifiers import CLASSIFIERS
from mnemon.learning.method import Batch
from mnemon.learning.methods import methods
from mnemon.learning.methods.agem import project
from mnemon.learning.objectives import OBJECTIVES

# --- A-GEM


def test_projection_vector():
    g, g_ref = (torch.tensor([1.0, -2.0, 3.0]),), (torch.tensor([-1.0, 1.0, 0.5]),)
    assert project(g, g_ref)[0].tolist() == pytest.approx([1 / 3, -4 / 3, 10 / 3])
    assert torch.equal(project(g, (torch.zeros(3),))[0], g[0])
    assert torch.equal(project(g, g)[0], g[0])


@pytest.mark.parametrize(("given", "size"), [({}, 10), ({"reference_size": 17}, 17), ({"reference_size": 40}, 40)])
def test_agem_is_its_algorithm(given, size):
    """The last one looks at more rows than there are: at all of them."""
    learner = make("a-gem", memory_size=25, **given)
    dots = []

    def one_step(ref, memory, step, new):
        g = flat(ref.gradient(normalised(new), Y[new]))
        if memory:
            x_ref, y_ref = stack(memory, drawn(learner, step, "replay", size))
            assert len(y_ref) == min(size, 25, 10 * step)
            g_ref = flat(ref.gradient(x_ref, y_ref))
            dots.append(float(g @ g_ref))
            if g @ g_ref < 0:
                g = g - (g @ g_ref) / (g_ref @ g_ref) * g_ref
        sizes = [p.numel() for p in ref.net.parameters()]
        ref.sgd([part.reshape(p.shape) for part, p in zip(g.split(sizes), ref.net.parameters(), strict=True)])

    ref, _ = walk(learner, 25, one_step)
    learn(learner, 25)
    assert ref.equals(learner)  # the running statistics too: both passes of A-GEM move them
    assert min(dots) < 0 < max(dots)


def test_agem_never_raises_the_loss_of_the_reference_batch_to_first_order():
    learner = make("a-gem", memory_size=25)
    bent = 0
    for step in range(25):
        if step:
            new = Batch(normalised(range(step * 10, step * 10 + 10)), Y[step * 10 : step * 10 + 10])
            reference = learner.replay(torch.tensor(drawn(learner, step, "replay", 10)))
            learner.seen[new.y] = True
            g, g_ref = (flat(learner.loss_and_gradient(batch, len(batch)).gradient) for batch in (new, reference))
            taken = flat(learner.method.gradient(learner, new, reference).gradient)
            assert taken @ g_ref > -1e-9
            bent += bool(g @ g_ref < 0)
        learn(learner, 1, start=step)
    assert bent > 3


# --- MIR


def mir_rows(ref, memory, rows, new, replay=10, moved=False):
    """The candidates whose loss rises most, by a virtual copy of the network; its BatchNorm statistics are thrown away, and
    those of the look at the network itself too, unless it moves them."""
    if len(rows) <= replay:
        return rows
    keep = copy.deepcopy(ref.net.state_dict())
    virtual = ref.virtual(normalised(new), Y[new])
    x, y = stack(memory, rows)
    with torch.no_grad():
        rise = ref.losses(x, y, virtual)
        ref.net.load_state_dict(keep)
        rise -= ref.losses(x, y)
    if not moved:
        ref.net.load_state_dict(keep)
    order = sorted(range(len(rows)), key=lambda i: -float(rise[i]))
    return [rows[i] for i in order[:replay]]


@pytest.mark.parametrize("statistics", ["kept", "moved"])
def test_mir_is_its_algorithm(statistics):
    learner = make("mir", memory_size=60, candidates=20, statistics=statistics)

    def one_step(ref, memory, step, new):
        rows = mir_rows(ref, memory, drawn(learner, step, "candidates", 20), new, moved=statistics == "moved")
        joint(ref, new, *(stack(memory, rows) if rows else (None, None)))

    ref, _ = walk(learner, 20, one_step)
    learn(learner, 20)
    assert ref.equals(learner)


@pytest.mark.parametrize("loss", ["ce", "ace", "hybrid", "hybrid-ace", "hybrid-ce", "las"])
def test_the_virtual_step_is_a_step_on_the_new_samples(loss):
    learner = make("mir", loss, memory_size=40)
    learn(learner, 10)
    before = copy.deepcopy(learner.net.state_dict())
    new = Batch(normalised(range(100, 110)), Y[100:110])
    virtual = learner.virtual_step(new)
    assert all(torch.equal(before[k], v) for k, v in learner.net.state_dict().items())
    done = learner.loss_and_gradient(new, 10)
    for p, g, v in zip(learner.parameters, done.gradient, virtual, strict=True):
        assert torch.allclose(p - 0.1 * g, v, rtol=1e-12)


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


def test_hybrid_ce_is_the_sum_of_its_two_parts():
    learner = make("er", "hybrid-ce", memory_size=30, gamma=0.25)
    learn(learner, 12)
    rows = [1, 2, 45, 46, 90, 91, 100, 101]
    out = learner.net(normalised(rows))
    parts = [choose("er", loss).objective(out, Y[rows], learner.seen, 3) for loss in ("ms", "ce")]
    assert min(part.item() for part in parts) > 0
    value = learner.objective(out, Y[rows], learner.seen, 3)
    assert value.item() == pytest.approx((parts[0] + 0.25 * parts[1]).item(), abs=1e-12)
    assert choose("er", "hybrid-ce").objective.gamma == 1.0
    scored = learner.objective.per_sample(out, Y[rows], learner.seen)
    assert scored.mean().item() == pytest.approx(parts[1].item(), abs=1e-12)  # methods score by the discriminative part


def test_ace_without_replay_is_cross_entropy_over_the_batch():
    learner = make("er-ace", memory_size=30)
    learn(learner, 5)
    new = [100, 101, 150]
    value = learner.loss_and_gradient(Batch(normalised(new), Y[new]), 3).loss
    logits = learner.net(normalised(new)).logits[:, [2, 3]]
    assert value.item() == pytest.approx(F.cross_entropy(logits, torch.tensor([0, 0, 1])).item())


# --- all of them


SCORING = [name for name, method in methods().items() if method.needs_sample_loss]


@pytest.mark.parametrize("name", SCORING)
@pytest.mark.parametrize("loss", ["ce", "hybrid"])
def test_retrieving_leaves_parameters_and_running_statistics_as_they_were(name, loss):
    learner = make(name, loss, memory_size=60)
    learn(learner, 10)
    before = copy.deepcopy(learner.net.state_dict())
    draws = planned(learner, Y[None, 100:110])
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
    assert changes["gss"] == ["write"]
    assert changes["aser"] == ["retrieve", "write"]
    assert changes["cope"] == ["retrieve", "write", "loss cope", "classifier prototype"]
    assert changes["las"] == ["loss las"]
    assert changes["pcr"] == ["retrieve", "loss pcr", "classifier proxy"]
    assert changes["er-aml"] == ["retrieve", "gradient", "loss cosine", "classifier proxy"]
    assert changes["hybrid"] == ["loss hybrid", "classifier ncm"]
    assert changes["fine-tune"] == ["no memory"]
    assert changes["slda"] == ["no memory", "loss none", "classifier gaussian"]


@pytest.mark.parametrize("name", methods())
def test_a_method_explains_itself(name):
    method = methods()[name]
    page = Path(__file__).parents[2] / "docs" / "methods" / f"{name}.md"
    assert f"mnemon run --method {name} " in page.read_text()
    assert method.summary
    assert method.citation
    assert method.cost
    assert method.__doc__


# A change of behaviour must not slip in unseen: Σ|p| over all parameters after 50 float64 steps, or over the statistics
# where nothing is trained. Whoever changes one of these on purpose measures the method's cells again and says so in the
# changelog.
GOLDEN = {
    "a-gem": 57.3201957832,
    "aser": 61.2970872240,
    "cope": 177.5532567216,
    "der++": 57.1421310917,
    "er": 56.5825881532,
    "er-ace": 58.1435775780,
    "er-aml": 77.2642518484,
    "fine-tune": 57.3071829569,
    "gmed-er": 56.5730830727,
    "gmed-mir": 57.9175694488,
    "gss": 57.0580221768,
    "hybrid": 65.0221771982,
    "hybrid-ace": 56.7625163846,
    "iid-offline": 57.3071829569,
    "iid-online": 57.3071829569,
    "las": 57.0311109386,
    "mir": 57.7896701423,
    "pcr": 81.0804221180,
    "scr": 221.0520534756,
    "slda": 1051.3310469932,
}


@pytest.mark.parametrize("name", methods())
def test_golden(name):
    options = {"memory_size": 60} if methods()[name].replays else {}
    learner = make(name, **options)
    learn(learner, 50)
    learner.check()
    sums = [tensor for name, tensor in learner.state().items() if name.startswith("statistics.")]
    total = sum(p.abs().sum().item() for p in [*learner.parameters, *sums])
    assert total == pytest.approx(GOLDEN[name], rel=1e-7)


@pytest.mark.parametrize("method", methods())
def test_any_method_goes_with_any_loss_and_classifier_that_make_sense(method):
    """Each combination learns and predicts, or is refused with a sentence before anything is built."""
    tried = 0
    for loss in OBJECTIVES:
        names = []
        for name in CLASSIFIERS:
            with contextlib.suppress(MnemonError):
                choose(method, loss, [name])
                names.append(name)
        if not names:
            continue
        tried += 1
        more = {"memory_size": 30} if methods()[method].replays else {}
        learner = make(method, loss, **more | ({"lr": 0.01} if methods()[method].trains else {}))
        learn(learner, 8)
        learner.check()
        for scores in learner.scores(X[:20], choose(method, loss, names).classifiers):
            assert scores.shape == (20, learner.net.capacity)
            assert set(scores.argmax(1).tolist()) <= set(Y[:80].tolist())
    assert tried >= (4 if methods()[method].trains else 1)
