"""Classifiers against brute force."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import multivariate_normal
from torch import nn

from mnemon import MnemonError, OnlineClassifier
from mnemon.errors import Diverged
from mnemon.learning import plugins
from mnemon.learning.build import choose
from mnemon.learning.classifier import Classifier
from mnemon.learning.classifiers import CLASSIFIERS
from mnemon.learning.learner import Inputs, Learner
from mnemon.learning.methods.er import ER
from mnemon.learning.objectives import CrossEntropy, ProxyNCA
from mnemon.learning.plugins import classifier


def learner_with(memory_x, memory_y, objective=None):
    """A learner whose features are its inputs, and whose memory holds these rows."""
    x = torch.as_tensor(memory_x, dtype=torch.float64)
    learner = Learner(
        ER(memory_size=len(x)),
        objective or CrossEntropy(),
        Inputs(tuple(x.shape[1:]), torch.float64, 0, 1),
        backbone=nn.Identity(),
        dtype=torch.float64,
    )
    learner.memory.write(torch.arange(len(x)), x, torch.as_tensor(memory_y))
    learner.samples = len(x)
    learner.seen[: max(memory_y) + 1] = True
    return learner


def circle(degrees):
    a = torch.as_tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([a.cos(), a.sin()], 1)


POINTS, LABELS = circle([0, 35, 70, 40, 60, 80]), [0, 0, 0, 1, 1, 2]


def predictions(learner, name, x):
    return learner.scores(torch.as_tensor(x, dtype=torch.float64), [classifier(name)])[0].argmax(1)


def test_nearest_mean_equals_brute_force_and_the_means_are_not_renormalised():
    learner = learner_with(POINTS, LABELS)
    means = torch.stack([POINTS[torch.tensor(LABELS) == c].mean(0) for c in range(3)])
    assert means.norm(dim=1).tolist() == pytest.approx([0.8794, 0.9848, 1.0], abs=1e-4)
    queries = circle(range(360))
    got = predictions(learner, "ncm", queries)
    assert torch.equal(got, torch.cdist(queries, means).argmin(1))
    renormalised = (queries @ nn.functional.normalize(means, dim=1).T).argmax(1)
    assert (got != renormalised).sum() in (19, 20)  # at 65° the re-normalised rule has a tie


def test_raw_means_see_the_length_of_a_feature_and_normalised_ones_do_not():
    learner = learner_with([[10.0, 0.0], [1.0, 1.0]], [0, 1])
    assert predictions(learner, "ncm", [[0.5, 0.0]]).item() == 0
    assert predictions(learner, "ncm-raw", [[0.5, 0.0]]).item() == 1


def test_a_class_without_memory_rows_is_never_predicted():
    learner = learner_with([[1.0, 0.0], [0.0, 1.0]], [0, 2])
    scores = learner.scores(torch.randn(50, 2), [classifier("ncm")])[0]
    assert set(scores.argmax(1).tolist()) <= {0, 2}
    assert (scores[:, 1] == -math.inf).all()


@pytest.mark.parametrize("name", ["softmax", "proxy"])
def test_a_class_never_seen_is_never_predicted(name):
    objective = ProxyNCA() if name == "proxy" else CrossEntropy()
    learner = learner_with(torch.randn(3, 6), [0, 1, 2], objective)
    assert set(predictions(learner, name, torch.randn(500, 6)).tolist()) == {0, 1, 2}


def test_proxies_classify_by_distance():
    learner = learner_with(torch.randn(3, 6), [0, 1, 2], ProxyNCA())
    x = torch.randn(40, 6)
    distance = torch.cdist(nn.functional.normalize(x.double(), dim=1), learner.net.proxies[:3])
    assert torch.equal(predictions(learner, "proxy", x), distance.argmin(1))


def test_proxies_have_the_posterior_of_their_loss():
    x = torch.randn(40, 6).double()
    learner, sharp = (learner_with(torch.randn(3, 6), [0, 1, 2], ProxyNCA(scale=scale)) for scale in (2.0, 16.0))
    plain, sharper = (each.scores(x, [classifier("proxy")])[0] for each in (learner, sharp))
    assert torch.allclose(sharper[:, :3], 8 * plain[:, :3])


@pytest.mark.parametrize("name", ["ncm", "ridge", "lda", "blend"])
def test_large_and_small_calls_agree(name):
    learner = learner_with(torch.randn(30, 4), [i % 3 for i in range(30)])
    x = torch.randn(2500, 4)
    whole = learner.scores(x, [classifier(name)])[0]
    parts = torch.cat([learner.scores(part, [classifier(name)])[0] for part in x.split(7)])
    assert torch.allclose(whole, parts, atol=1e-5)


def memory_and_queries():
    """40 rows of the classes 0, 1 and 3, far from evenly, class 2 was seen and has none; 50 queries. As arrays, too."""
    g = np.random.default_rng(0)
    x, y, queries = g.normal(size=(40, 5)), np.repeat([0, 1, 3], [25, 12, 3]), g.normal(size=(50, 5))
    x += y[:, None] * np.linspace(-1, 1, 5)
    return learner_with(x, y), x, y, queries


def scores_of(learner, name, x):
    return learner.scores(torch.from_numpy(x), [classifier(name)])[0].numpy()


@pytest.mark.parametrize(("name", "lam"), [("ridge", 1.0), ("ridge:lam=0.01", 0.01), ("ridge:lam=100", 100.0)])
def test_ridge_is_its_formula(name, lam):
    learner, x, y, queries = memory_and_queries()
    z = x / np.linalg.norm(x, axis=1, keepdims=True)
    a = np.diag([40 / (3 * (y == label).sum()) for label in y])
    assert np.trace(a) == pytest.approx(40)
    targets = np.eye(4)[y]
    w = np.linalg.inv(z.T @ a @ z + lam * np.eye(5)) @ z.T @ a @ targets
    wanted = queries / np.linalg.norm(queries, axis=1, keepdims=True) @ w
    found = scores_of(learner, name, queries)
    np.testing.assert_allclose(found[:, [0, 1, 3]], wanted[:, [0, 1, 3]], rtol=1e-9, atol=1e-12)
    assert (found[:, [2, 4]] == -np.inf).all()  # no rows; never seen


def test_copies_of_a_class_do_not_move_ridge():
    """The others keep their share, however many rows one class has; λ stands beside a sum over all rows."""
    x, y = torch.randn(12, 3), [0, 0, 1, 1, 2, 2] * 2
    doubled = learner_with(torch.cat([x, x[:2], x[6:8]]), [*y, 0, 0, 0, 0])
    queries = torch.randn(30, 3).double().numpy()
    found = scores_of(doubled, f"ridge:lam={16 / 12}", queries)
    np.testing.assert_allclose(found, scores_of(learner_with(x, y), "ridge:lam=1", queries), rtol=1e-6)


@pytest.mark.parametrize(("name", "lam"), [("lda", 0.1), ("lda:lam=2", 2.0)])
def test_lda_gives_the_posterior_of_gaussian_classes(name, lam):
    learner, x, y, queries = memory_and_queries()
    means = {c: x[y == c].mean(0) for c in (0, 1, 3)}
    residue = x - np.stack([means[label] for label in y])
    covariance = residue.T @ residue / 40
    covariance += lam * np.trace(covariance) / 5 * np.eye(5)
    density = np.stack([multivariate_normal(means[c], covariance).pdf(queries) for c in (0, 1, 3)], 1)
    scores = scores_of(learner, name, queries)
    assert (scores[:, [2, 4]] == -np.inf).all()
    assert not classifier(name).twice_log_density  # the whole score is a log density
    np.testing.assert_allclose(
        softmax(scores, axis=1)[:, [0, 1, 3]], density / density.sum(1, keepdims=True), rtol=1e-8
    )


def test_lda_before_a_class_has_two_rows_is_the_nearest_mean():
    learner = learner_with(torch.randn(3, 4), [0, 1, 2])
    queries = torch.randn(40, 4)
    assert torch.equal(predictions(learner, "lda", queries), predictions(learner, "ncm-raw", queries))


@pytest.mark.parametrize(("name", "s"), [("blend", 8.0), ("blend:sharpness=0.5", 0.5)])
def test_blend_multiplies_two_posteriors(name, s):
    learner, x, y, queries = memory_and_queries()
    z, q = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, queries))
    near = np.full((50, 16), -np.inf)
    for c in (0, 1, 3):
        near[:, c] = -np.square(q - z[y == c].mean(0)).sum(1)
    logits = (torch.from_numpy(queries) @ learner.net.head_weight.T + learner.net.head_bias).detach().numpy()
    wanted = softmax(s * near, axis=1)[:, :4] * softmax(logits[:, :4], axis=1)
    np.testing.assert_allclose(np.exp(scores_of(learner, name, queries)[:, :4]), wanted, rtol=1e-9)
    assert (wanted[:, 2] == 0).all()


@pytest.mark.parametrize("name", ["ridge", "lda"])
def test_features_that_are_not_finite_are_one_sentence(name):
    learner = learner_with([[1.0, 2.0], [math.nan, 0.0], [3.0, 1.0]], [0, 1, 1])
    with pytest.raises(Diverged, match=f"{name} cannot be solved: features of the memory are not finite"):
        learner.scores(torch.randn(2, 2), [classifier(name)])


def test_the_estimator_predicts_with_them():
    g = np.random.default_rng(1)
    y = np.arange(200) % 4
    x = (g.normal(size=(200, 6)) + 3 * np.eye(6)[y]).astype(np.float32)
    for name in ("ridge", "lda", "blend"):
        clf = OnlineClassifier("er", classifier=name, memory_size=60).fit(x, y)
        found = clf.predict_proba(x)
        assert np.allclose(found.sum(1), 1)
        assert (found.argmax(1) == y).mean() > 0.8


def test_nothing_learned_nothing_predicted():
    learner = Learner(ER(memory_size=5), CrossEntropy(), Inputs((4,)))
    with pytest.raises(MnemonError, match="nothing was learned"):
        learner.scores(torch.zeros(1, 4, dtype=torch.uint8), [classifier("ncm")])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"method": "hybird"}, "did you mean 'hybrid'"),
        ({"method": "er", "loss": "hybird"}, "unknown loss 'hybird'; did you mean 'hybrid'"),
        ({"method": "er", "classifiers": ["ncn"]}, "unknown classifier 'ncn'; did you mean 'ncm'"),
        ({"method": "er", "classifiers": ["proxy"]}, "proxy needs proxies, which the loss ce does not train"),
        ({"method": "hybrid", "classifiers": ["softmax"]}, "softmax needs a softmax head, which the loss hybrid"),
        (
            {"method": "fine-tune", "classifiers": ["ncm"]},
            "ncm takes its features from the memory, and fine-tune keeps none",
        ),
        ({"method": "fine-tune", "classifiers": ["ridge"]}, "ridge takes its features from the memory, and fine-tune"),
        (
            {"method": "hybrid", "classifiers": ["blend"]},
            "blend needs a softmax head, which the loss hybrid does not train",
        ),
        ({"method": "fine-tune", "loss": "ms"}, "trains features only, and fine-tune keeps no memory"),
        ({"method": "er", "given": {"gamma": 1.0}}, "er with the loss ce has no option 'gamma'"),
        ({"method": "er", "given": {"memory_size": 0}}, "memory_size must be at least 1"),
        ({"method": "er", "given": {"lr": 0.0}}, "lr must be above 0"),
        ({"method": "er", "given": {"lr": math.nan}}, "lr must be a finite number"),
        ({"method": "er", "given": {"batch_size": 2.5}}, "batch_size must be of type int"),
        ({"method": "hybrid", "given": {"divisor": "bach"}}, "did you mean 'batch'"),
        ({"method": "hybrid", "given": {"gamma": -1.0}}, "gamma must be at least 0"),
    ],
)
def test_choices_that_make_no_sense_are_refused_with_the_reason(call, words):
    with pytest.raises(MnemonError, match=words):
        choose(**call)


def test_a_classifier_may_need_several_things_and_each_is_looked_for(monkeypatch):
    @dataclass(frozen=True)
    class Both(Classifier):
        name: ClassVar[str] = "both"
        doc: ClassVar[str] = "-"
        needs: ClassVar[tuple[str, ...]] = ("memory", "head", "statistics")

    @dataclass(frozen=True)
    class Counting(ER):
        name: ClassVar[str] = "counting"
        keeps_statistics: ClassVar[bool] = True
        default_classifier: ClassVar[str] = "both"

    monkeypatch.setitem(CLASSIFIERS, "both", Both)
    monkeypatch.setitem(plugins._added["method"], "counting", Counting)
    assert choose(Counting).classifiers == [Both()]
    assert choose(Counting, "ms").classifiers[0].name == "ncm"  # its own needs a head, which this loss does not train
    for method, loss, sentence in (
        ("fine-tune", "ce", "both takes its features from the memory, and fine-tune keeps none."),
        ("er", "ms", "both needs a softmax head, which the loss ms does not train."),
        ("er", "ce", "both reads the statistics that slda or counting keeps, and er keeps none."),
    ):
        with pytest.raises(MnemonError) as error:
            choose(method, loss, ["both"])
        assert str(error.value) == sentence


def test_any_loss_goes_with_any_method():
    assert choose("er", "ms").classifiers[0].name == "ncm"  # there is no softmax head to fall back on
    assert choose("er", "hybrid", ["ncm", "ncm-raw", "proxy"], {"gamma": 2}).objective.gamma == 2.0
    assert choose("hybrid", "ce", ["softmax", "ncm"]).objective.name == "ce"
    assert choose("fine-tune", "pnca").classifiers[0].name == "proxy"
    assert choose("fine-tune").options()["lr"] == 0.1
