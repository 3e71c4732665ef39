"""slda's learner against a slow reference in float64, and what must not matter: order, chunks, machines, interruptions.

Tolerances are stated on scores, relative to their spread. Measured on these samples: 3e-6 against the reference, 1e-6 for
other orders and chunks, after a merge and after a removal. Fifteen times the largest is allowed, since another processor rounds
otherwise.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from test_patches import slow
from torch import nn

from mnemon.errors import Diverged, MnemonError
from mnemon.experiments.executor import Executor, executor_for
from mnemon.experiments.recipes import grids
from mnemon.learning import cost, patches, plugins
from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import make_learner
from mnemon.learning.method import Method
from mnemon.runtime.precision import full_float32

SHAPE, N, C, FIRST, LAM = (3, 9, 11), 240, 4, 12, 1e-2
PATCHES = f"patches:filters=5:images={FIRST}:side=4"
TOLERANCE = 5e-5  # of the spread of the scores
GOLDEN = 247453.961  # Σ|score| of the samples, all learned; changed on purpose only, and said so in the changelog


def samples():
    """Images whose texture depends on the class, one class after the other, but for the first ones."""
    made = torch.Generator().manual_seed(0)
    y = torch.arange(N) * C // N
    y[:8] = torch.arange(8) % C
    base = torch.rand(C, *SHAPE, generator=made)[y] * 160
    return (base + torch.rand(N, *SHAPE, generator=made) * 95).to(torch.uint8), y


X, Y = samples()
GAUSSIAN = choose("slda", classifiers=[f"gaussian:lam={LAM}"]).classifiers


def make(backbone=PATCHES, seed=3, inputs=None, **options):
    choice = choose("slda", given=options)
    return make_learner(choice.method, choice.objective, inputs or Inputs(SHAPE), backbone=backbone, seed=seed)


def learn(learner, index, cuts=()):
    """Learn the samples with these numbers, cut into calls."""
    learner.grow(C)
    for part in np.split(np.asarray(index), list(cuts)):
        if len(part):
            learner.learn(X, Y, part[:, None])
    learner.check()
    return learner


def scores(learner, classifiers=GAUSSIAN, x=X):
    return learner.scores(x, classifiers)[0][:, :C]


def apart(a, b):
    """The largest difference of two tables of scores, each minus its row's mean (which predicts nothing), by their spread."""
    a, b = (scores - scores.mean(1, keepdim=True) for scores in (a, b))
    return float((a - b).abs().max() / b.std())


def test_it_is_its_definition():
    """Patch by patch, class by class, in float64: class means, scatter around them, an inverse."""
    index = [*range(FIRST), *range(FIRST, N, 5)]  # loops are slow
    learner = learn(make(), index)
    net = learner.net.backbone
    made = patches.from_images(X[:FIRST].double(), filters=5, side=4, seed=3)
    assert torch.equal(net.kernel, made.kernel.float())
    f = torch.stack([slow(net, image) for image in X[index]]).numpy()
    y = Y[index].numpy()
    means = np.stack([f[y == c].mean(0) for c in range(C)])
    sigma = sum(np.outer(a, a) for a in f - means[y]) / len(f)
    inverse = np.linalg.inv(sigma + LAM * np.trace(sigma) / len(sigma) * np.eye(len(sigma)))
    expected = f @ inverse @ means.T - 0.5 * np.einsum("cd,de,ce->c", means, inverse, means)
    assert apart(scores(learner, x=X[index]), torch.from_numpy(expected)) < TOLERANCE


def test_golden():
    total = float(scores(learn(make(), range(N))).abs().sum())
    assert total == pytest.approx(GOLDEN, rel=1e-5)


def test_any_chunks_and_any_order_behind_the_first_images_give_the_same_scores():
    whole = learn(make(), range(N))
    back = [*range(FIRST), *reversed(range(FIRST, N))]
    for order, cuts in ((range(N), range(1, N)), (range(N), (FIRST - 1,)), (back, (5, FIRST, FIRST + 1, 100))):
        other = learn(make(), order, cuts)
        assert other.digest() == whole.digest()  # of exactly the first images, however they came
        assert torch.equal(other.counts, whole.counts)
        assert apart(scores(other), scores(whole)) < TOLERANCE


def test_the_first_images_wait_and_their_pixels_predict():
    learner = learn(make(), range(FIRST - 1))
    state = learner.state()
    assert (len(state["waiting.x"]), len(state["waiting.y"]), bool(state["fitted"])) == (FIRST - 1, FIRST - 1, False)
    assert state["statistics.scatter"].numel() == 0
    pixels = X.double().flatten(1)
    means = torch.stack([pixels[: FIRST - 1][Y[: FIRST - 1] == c].mean(0) for c in range(C)])
    assert torch.equal(scores(learner).argmax(1), torch.cdist(pixels, means).argmin(1))
    learn(learner, [FIRST - 1])
    state = learner.state()
    assert (len(state["waiting.x"]), len(state["waiting.y"]), bool(state["fitted"])) == (0, 0, True)
    assert int(learner.statistics.counts.sum()) == FIRST


def test_without_patches_nothing_waits():
    learner = learn(make("identity"), range(3))
    assert (learner.fitted, int(learner.statistics.counts.sum())) == (True, 3)
    noise = learn(make("patches:filters=5:side=4:source=noise"), range(3))
    assert (noise.fitted, int(noise.statistics.counts.sum())) == (True, 3)


def test_the_state_has_a_triangle_and_the_classes_seen():
    learner = learn(make(), range(100))  # two classes, but for the first ones
    state, d = learner.state(), 2 * 5 * 4
    assert state["statistics.scatter"].shape == (d * (d + 1) // 2,)
    assert state["statistics.means"].shape == (C, d)
    assert len(state["seen"]) == learner.net.capacity > C
    assert state["statistics.scatter"].dtype == torch.float32


@pytest.mark.parametrize("stop", [0, FIRST - 3, 100])
def test_going_on_from_a_saved_state_is_bit_equal(stop):
    whole = learn(make(), range(N), (stop, 170))
    stopped = learn(make(), range(stop))
    saved = {name: tensor.clone() for name, tensor in stopped.state().items()}
    resumed = make()
    resumed.restore(saved, steps=stopped.steps, samples=stopped.samples)
    learn(resumed, range(stop, N), (170 - stop,))
    assert (resumed.steps, resumed.samples) == (whole.steps, whole.samples) == (N, N)
    mine, its = resumed.state(), whole.state()
    assert all(torch.equal(mine[name], its[name]) for name in its)
    assert torch.equal(scores(resumed), scores(whole))


def test_a_state_of_other_features_is_refused():
    state = learn(make(), range(50)).state()
    for other in ("patches:filters=6:images=12:side=4", "identity"):
        with pytest.raises(MnemonError, match="does not belong"):
            make(other).restore(state, steps=50, samples=50)
    for name, tensor in (("statistics.scatter", torch.zeros(7)), ("waiting.y", torch.zeros(1, dtype=torch.int64))):
        with pytest.raises(MnemonError, match="does not belong"):
            make().restore(state | {name: tensor}, steps=50, samples=50)


def test_two_views_learn_the_mirror_image_and_average_at_test():
    learner = learn(make(views=2), range(N))
    plain = learn(make(), range(N))
    assert learner.net.backbone.digest() == plain.net.backbone.digest()
    with pytest.raises(MnemonError, match="mirror images too"):  # twice as many samples would be in one of them
        learner.merge(plain)
    both = make()
    both.take_dictionary(plain)
    both.grow(C)
    both.learn(torch.cat([X, X.flip(-1)]), torch.cat([Y, Y]), np.arange(2 * N)[:, None])
    averaged = (scores(both) + scores(both, x=X.flip(-1))) / 2
    assert apart(scores(learner), averaged) < TOLERANCE
    assert (learner.samples, int(learner.counts.sum())) == (N, N)


def test_samples_that_are_taken_back_leave_no_trace():
    for options in ({}, {"views": 2}):
        learner, rest = (learn(make(**options), order) for order in (range(N), range(160)))
        learner.forget(X[160:], Y[160:])
        assert apart(scores(learner)[:, :3], scores(rest)[:, :3]) < TOLERANCE
        assert torch.equal(learner.counts, rest.counts)
        assert torch.equal(learner.seen, rest.seen)
        assert learner.samples == rest.samples == 160


def test_merged_learners_are_one_that_saw_all():
    whole = learn(make(), range(N))
    first = learn(make(), range(100))
    second = make()
    second.take_dictionary(first)
    turned = torch.tensor([3, 0, 1, 2])  # its own order of classes
    second.grow(C)
    second.learn(X, turned[Y], np.arange(100, N)[:, None])
    first.merge(second, torch.argsort(turned))
    assert torch.equal(first.counts, whole.counts)
    assert (first.samples, first.steps) == (N, N)
    assert apart(scores(first), scores(whole)) < TOLERANCE


def test_what_would_not_be_exact_is_refused():
    learner, other, early = learn(make(), range(50)), learn(make(), range(20, 60)), learn(make(), range(5))
    before = {name: tensor.clone() for name, tensor in learner.state().items()}
    for act, sentence in (
        (lambda: learner.merge(other), "different dictionaries"),
        (lambda: learner.merge(early), "before 12 images were seen there is no dictionary, and it cannot be merged"),
        (lambda: early.forget(X[:9], Y[:9]), "more samples of a class are to be removed than were learned"),
        (lambda: early.take_dictionary(learner), "before it learns, not after"),
        (lambda: make().take_dictionary(early), "its dictionary cannot be taken"),
        (lambda: learner.forget(X[100:], Y[100:]), "more samples of a class are to be removed than were learned"),
    ):
        with pytest.raises(MnemonError, match=sentence):
            act()
    assert all(torch.equal(before[name], tensor) for name, tensor in learner.state().items())


def test_the_classifiers_covariance_and_probabilities():
    learner = learn(make(), range(N))
    f = learner.output(X).features.double()
    means = torch.stack([f[c == Y].mean(0) for c in range(C)])
    nearest = scores(learner, choose("slda", classifiers=["gaussian:covariance=identity"]).classifiers)
    expected = torch.distributions.MultivariateNormal(torch.zeros(40).double(), torch.eye(40).double())
    density = torch.stack([expected.log_prob(f - mean) for mean in means], 1)
    assert torch.allclose(nearest.softmax(1), density.softmax(1), atol=1e-4)  # scores are log-densities: the posterior
    assert GAUSSIAN[0].twice_log_density is False
    right = [float((s.argmax(1) == Y).double().mean()) for s in (scores(learner), nearest)]
    assert right[0] >= right[1]


def test_samples_that_are_not_finite_are_found():
    learner = make("identity", inputs=Inputs((3,), torch.float32, 0.0, 1.0))
    learner.learn(torch.tensor([[1.0, 2, 3], [1, torch.inf, 0]]), torch.tensor([0, 1]), np.arange(2)[:, None])
    with pytest.raises(Diverged, match="not finite"):
        learner.check()
    first = make(inputs=Inputs(SHAPE, torch.float32, 0.0, 1.0))
    first.learn(torch.full((20, *SHAPE), torch.nan), torch.zeros(20, dtype=torch.int64), np.arange(20)[:, None])
    with pytest.raises(Diverged, match="not finite"):
        first.check()


def test_features_whose_squares_are_not_finite_are_found():
    """Their covariance would be infinite, and every class as likely."""
    learner = make("identity", inputs=Inputs((3,), torch.float32, 0.0, 1.0))
    learner.learn(1e20 * torch.eye(3), torch.zeros(3, dtype=torch.int64), np.arange(3)[:, None])
    with pytest.raises(Diverged, match="too large for its variance"):
        learner.check()


@pytest.mark.parametrize(
    ("shape", "backbone"),
    [((3, 32, 32), "patches"), ((1, 8, 8), "patches"), ((1, 6, 6), "identity"), ((9,), "identity")],
)
def test_the_features_of_a_shape(shape, backbone):
    assert choose("slda").method.default_backbone(shape) == backbone
    assert choose("er").method.default_backbone(shape) is None
    learner = make("auto", inputs=Inputs(shape))
    assert type(learner.net.backbone) is type(make(backbone, inputs=Inputs(shape)).net.backbone)


def test_a_network_of_ones_own_gives_features():
    body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 9 * 11, 10))
    learner = learn(make(body), range(N))
    assert learner.state()["statistics.means"].shape == (C, 10)
    assert float((scores(learner).argmax(1) == Y).double().mean()) > 0.9


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (
            lambda: choose("slda", given={"lr": 0.1}),
            "slda trains nothing and has no option 'lr'; it has batch_size, views",
        ),
        (lambda: choose("slda", given={"memory_size": 9}), "has no option 'memory_size'"),
        (lambda: choose("slda", "ce"), "slda trains nothing, so it has no use for a loss"),
        (lambda: choose("er", "none"), "er trains a network, which takes a loss"),
        (
            lambda: choose("er", classifiers=["gaussian"]),
            "gaussian reads the statistics that slda keeps, and er keeps none",
        ),
        (lambda: make("resnet18"), "slda trains nothing, and resnet18 is nothing before it is trained"),
        (lambda: make("identity", inputs=Inputs((40_000,))), "40,000 are too many"),
        (lambda: make(inputs=Inputs((9,)), backbone="auto", views=2), "a mirror image needs images"),
        (
            lambda: make_learner(*choose("er")[:2], Inputs(SHAPE), backbone=PATCHES),
            "er trains its network, and patches are fitted",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_one_sentence(act, sentence):
    with pytest.raises(MnemonError, match=sentence):
        act()


def test_there_is_no_learning_rate_to_search():
    assert grids.grid("slda", "none") == {"views": (1, 2)}
    assert "lr" not in choose("slda").options()


def test_products_are_never_shortened(monkeypatch):
    """TF32 may be on around it: within features and statistics it is off, and on again behind them."""
    found = []
    switches = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [switch.allow_tf32 for switch in switches]

    def noted(real):
        def call(*args, **named):
            found.append([switch.allow_tf32 for switch in switches])
            return real(*args, **named)

        return call

    monkeypatch.setattr(nn.functional, "conv2d", noted(nn.functional.conv2d))
    monkeypatch.setattr(torch.Tensor, "addmm_", noted(torch.Tensor.addmm_))
    try:
        for switch in switches:
            switch.allow_tf32 = True
        learn(make(), range(20))
        assert [switch.allow_tf32 for switch in switches] == [True, True]
        with pytest.raises(KeyError), full_float32():
            raise KeyError
        assert [switch.allow_tf32 for switch in switches] == [True, True]
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value
    assert len(found) >= 2
    assert not np.any(found)


def test_on_a_gpu_it_runs_without_graphs():
    gpu = SimpleNamespace(type="cuda")
    run = SimpleNamespace(learner=SimpleNamespace(device=gpu), choice=choose("slda"))
    assert type(executor_for(run)) is Executor


def test_a_method_without_gradients_of_ones_own_has_nothing_to_search_by_itself(monkeypatch, tmp_path):
    from mnemon.experiments import tuning

    class Counting(Method):
        name, summary, citation, cost = "counting", "-", "-", "0"
        trains = replays = False
        keeps_statistics = True
        default_objective, default_classifier = "none", "gaussian"

    monkeypatch.setitem(plugins._added["method"], "counting", Counting)
    with pytest.raises(MnemonError, match="counting has no option that is searched by itself; name some, as in --grid"):
        tuning.search("counting", "split-digits", tmp_path)


def test_bytes_are_the_most_that_are_ever_held():
    """Images that wait for a dictionary can take more than the statistics that follow them."""
    learner = make("patches:filters=5:images=200:side=4", inputs=Inputs(SHAPE))
    learn(learner, range(150))
    waiting = sum(t.numel() * t.element_size() for t in learner.state().values())
    each = (waiting - sum(t.numel() * t.element_size() for t in make().state().values())) / 150
    learn(learner, range(150, N))
    assert learner.fitted
    assert cost.state_bytes(learner) == pytest.approx(waiting + 50 * each, abs=100)


def test_a_covariance_without_an_inverse_ends_its_run_alone():
    """A run that diverged is left out; the others go on."""
    learner = make("identity", inputs=Inputs((3,), torch.float32, 0.0, 1.0))
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    x[:, 2] = x[:, 1]
    learner.learn(x, torch.arange(20) % 2, np.arange(20)[:, None])
    with pytest.raises(Diverged, match="gaussian:lam=1e-300: the covariance has no inverse"):
        learner.scores(x, choose("slda", classifiers=["gaussian:lam=1e-300"]).classifiers)
