"""How sure it is: calibrated probabilities, reject, novelty."""

import math
import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from test_estimator import blobs, pictures

from mnemon import MnemonError, OnlineClassifier
from mnemon.estimator.calibration import caution, temperature

METHODS = ["hybrid", "slda", "er"]


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return x[order].astype(np.float32), y[order]


@pytest.fixture(scope="module", params=METHODS)
def model(request, digits):
    x, y = digits
    return OnlineClassifier(request.param).partial_fit(x[:1200], y[:1200])


def ece(p, right, bins=15):
    """Expected calibration error: |accuracy − confidence| over bins of equal width, by their share of the samples."""
    sure = p.max(1)
    at = np.minimum((sure * bins).astype(int), bins - 1)
    return sum(abs(sure[at == b].mean() - right[at == b].mean()) * (at == b).mean() for b in np.unique(at))


def test_confidence_is_as_high_as_accuracy(model, digits):
    """The complaint: an accuracy of 81 % at a mean confidence of 19 %."""
    x, y = (part[1200:] for part in digits)
    p, right = model.predict_proba(x), model.predict(x) == y
    assert abs(p.max(1).mean() - right.mean()) < 0.05
    assert ece(p, right) < 0.05
    assert (model.classes_[p.argmax(1)] == model.predict(x)).all()
    own = torch.softmax(
        model._model.frozen()
        ._in_parts(torch.from_numpy(x), lambda _, out: model._model.frozen()._uncalibrated(out))
        .double(),
        1,
    )
    if model.method != "slda":  # whose own posterior is not far off
        assert ece(own.numpy(), right) > 0.2


def test_one_absurd_sample_of_the_exam_does_not_flatten_all_probabilities():
    """A pixel that was never lit before: its sample has a score of 1e4 for a wrong class."""
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(3, (60,), generator=rng)
    logits = torch.randn(60, 3, generator=rng) + 4 * torch.eye(3)[y]
    plain = temperature(logits, y)
    logits[0], logits[0, (y[0] + 1) % 3] = 0.0, 1e4
    assert plain < temperature(logits, y) < 3 * plain
    logits[1:20] = logits[0]  # a third of them is no exception
    y[1:20] = y[0]
    assert temperature(logits, y) > 100


def test_masks_as_uint8_are_warned_of_and_scores_that_hardly_differ_are_calibrated(digits):
    """Pixels from 0 to 16 of 255: the features of all samples are nearly one, and so are their scores."""
    x, y = digits
    images = x.reshape(-1, 8, 8).astype(np.uint8)
    clf = OnlineClassifier("hybrid")
    with pytest.warns(UserWarning, match="its largest value is 16: uint8 is taken for pixels"):
        clf.partial_fit(images[:1000], y[:1000])
    right = clf.predict(images[1200:]) == y[1200:]
    assert abs(clf.predict_proba(images[1200:]).max(1).mean() - right.mean()) < 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OnlineClassifier("hybrid").partial_fit(images[:50].astype(np.float32), y[:50])
        OnlineClassifier("hybrid").partial_fit(images[:50] * 15, y[:50])
        OnlineClassifier().partial_fit(images[:50], y[:50])  # contrast alone counts


@pytest.mark.parametrize("value", [1e6, -1e6, 1e30])
def test_a_sample_far_from_everything_is_none_of_the_classes(model, digits, value):
    """The complaint: 1e6 in every feature had a probability of 0.59."""
    x = digits[0][1200:]
    far = np.full((1, 64), value, np.float32)
    p = model.predict_proba(far)
    assert np.allclose(p, 0.1, atol=1e-3)
    assert model.novelty(far)[0] > 100 > 10 * np.median(model.novelty(x))
    assert model.predict(far, reject=0.2).tolist() == [None]
    assert model.predict(far)[0] in model.classes_
    assert np.isfinite(model.decision_function(far)).all()


def test_what_is_asked_in_many_ways_is_one_answer(model, digits):
    x = digits[0][1200:1260]
    p = model.predict_proba(x)
    assert np.allclose(p.sum(1), 1)
    assert np.allclose(np.exp(model.predict_log_proba(x)), p)
    decided = np.exp(model.decision_function(x) - model.decision_function(x).max(1, keepdims=True))
    assert np.allclose(decided / decided.sum(1, keepdims=True), p)
    one = model.predict_proba_one(dict(enumerate(x[0].tolist())))
    assert np.allclose([one[label] for label in model.classes_.tolist()], p[0])
    assert np.allclose(model.predict_proba_many([dict(enumerate(row)) for row in x.tolist()]).to_numpy(), p)


def test_reject_leaves_out_what_is_unsure(model, digits):
    x, y = (part[1200:] for part in digits)
    found, rejecting = model.predict(x), model.predict(x, reject=0.9)
    sure = model.predict_proba(x).max(1) >= 0.9
    assert rejecting.dtype == object
    answered = np.array([label is not None for label in rejecting])
    assert (answered == sure & (model.novelty(x) <= 3)).all()
    assert (rejecting[answered] == found[answered]).all()
    assert 0.5 < answered.mean() < 1
    assert (found == y)[answered].mean() > (found == y).mean() + 0.01
    assert (model.predict(x, reject=0) == None).mean() < 0.02  # noqa: E711 (element by element)
    i = int(np.flatnonzero(~answered)[0])
    sample = dict(enumerate(x[i].tolist()))
    assert model.predict_one(sample, reject=0.9) is None
    assert model.predict_one(sample) == found[i]


@pytest.mark.parametrize("given", [-0.1, 1.1, "0.5", True, math.nan])
def test_reject_is_a_probability(given):
    x, y = blobs(30)
    clf = OnlineClassifier("slda").fit(x, y)
    with pytest.raises(MnemonError, match="a number from 0 to 1"):
        clf.predict(x, reject=given)
    with pytest.raises(MnemonError, match="a number from 0 to 1"):
        clf.predict_one(dict(enumerate(x[0].tolist())), reject=given)


@pytest.mark.parametrize("method", [*METHODS, "fine-tune"])
def test_classes_never_learned_are_novel(method, digits):
    x, y = digits
    known = y < 8
    clf = OnlineClassifier(method).partial_fit(x[:1200][known[:1200]], y[:1200][known[:1200]])
    novelty = clf.novelty(x[1200:])
    assert roc_auc_score(~known[1200:], novelty) > (0.75 if method == "fine-tune" else 0.8)
    share = (novelty[known[1200:]] <= 1).mean()
    assert 0.85 < share < 1  # about 19 of 20 known ones


def test_two_classes_have_a_far_away_too():
    """Where the likeliest of two classes never has less than 0.5, novelty rejects."""
    x, y = blobs(400, classes=2)
    for method in METHODS:
        clf = OnlineClassifier(method).partial_fit(x, y)
        assert clf.predict(np.full((1, 6), 1e6, np.float32), reject=0.5).tolist() == [None]
        assert (clf.predict(x, reject=0.5) == y).mean() > 0.95


def test_images_have_novelty_and_calibrated_probabilities():
    x, y = pictures(400, channels=3)
    for given in ({"method": "slda", "backbone": "patches:filters=6:images=20:side=4"}, {"method": "hybrid"}):
        clf = OnlineClassifier(**given).partial_fit(x[:300], y[:300])
        stripes = np.zeros((50, 8, 8, 3), np.uint8)
        stripes[:, ::2] = np.random.default_rng(0).integers(150, 256, size=(50, 4, 8, 3))
        assert roc_auc_score([0] * 100 + [1] * 50, clf.novelty(np.concatenate([x[300:], stripes]))) > 0.95
        p, right = clf.predict_proba(x[300:]), clf.predict(x[300:]) == y[300:]
        assert abs(p.max(1).mean() - right.mean()) < 0.1


def test_the_model_that_predicts_does_not_change_while_another_chunk_is_learned():
    """Calibration is computed when it is first asked for, perhaps after the learner has gone on."""
    x, y = blobs(600)
    for method in METHODS:
        clf = OnlineClassifier(method, exam=5, memory_size=50).partial_fit(x[:300], y[:300])
        early, late = clf._model.frozen(), clf._model.frozen()
        clf._model._frozen = None
        now = clf.predict_proba(x), clf.novelty(x)
        with warnings.catch_warnings(action="ignore"):  # of drift
            clf.partial_fit(x[300:] * 3, y[300:])
        rows = torch.from_numpy(x)
        assert (early.probabilities(rows) == now[0]).all()
        assert (late.novelty(rows) == now[1]).all()


# --- the temperature


def logits(n, sharp, seed=0):
    """Scores of ten classes and labels drawn from their softmax, then all multiplied: T is what they were multiplied by."""
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(rng.normal(size=(n, 10)) * 3)
    p = torch.softmax(z, 1).numpy()
    return z * sharp, torch.from_numpy(np.array([rng.choice(10, p=row) for row in p]))


@pytest.mark.parametrize("sharp", [0.02, 1.0, 50.0])
def test_the_temperature_is_found(sharp):
    z, y = logits(1000, sharp)
    assert temperature(z, y) == pytest.approx(sharp, rel=0.15)


def test_an_exam_without_a_mistake_does_not_make_it_certain():
    y = torch.arange(200) % 10
    z = 100 * torch.nn.functional.one_hot(y, 10).double()
    p = torch.softmax(z / temperature(z, y), 1).max(1).values
    assert ((p > 0.99) & (p < 0.9999)).all()
    few = torch.softmax(z[:12] / temperature(z[:12], y[:12]), 1).max(1).values
    assert ((few > 0.9) & (few < p[:12])).all()


def test_whatever_the_scores_the_temperature_is_a_number():
    y = torch.arange(40) % 4
    for z in (
        torch.zeros(40, 4),
        torch.full((40, 4), 1e300, dtype=torch.float64),
        -1e6 * torch.nn.functional.one_hot(y, 4).double(),
        torch.randn(40, 4, generator=torch.manual_seed(0)) * 1e-30,
    ):
        assert 1e-4 < temperature(z, y) < 1e4
    assert temperature(torch.full((40, 4), torch.nan), y) is None
    assert temperature(torch.zeros(9, 4), y[:9]) is None  # too few
    one = torch.tensor([0.0, -torch.inf, -torch.inf, -torch.inf]).expand(40, 4)
    assert temperature(one, y * 0) is None  # one class has no alternative
    two = torch.tensor([1.0, 0.0, -torch.inf, -torch.inf]).expand(40, 4)
    assert temperature(two, y) is not None  # samples of classes that cannot be predicted tell nothing


def test_classes_weigh_the_same_however_many_samples_they_have():
    """One class of 20 samples is always right, four of 3 always wrong: most classes are wrong."""
    y = torch.cat([torch.zeros(20), torch.arange(1, 5).repeat(3)]).long()
    z = torch.zeros(32, 5).double()
    z[:, 0] = 1.0
    p = torch.softmax(z / temperature(z, y), 1)[0, 0]
    assert p < 0.35


@pytest.mark.parametrize("method", METHODS)
def test_a_small_exam_knows_what_is_far(method):
    """Four samples are too few for a temperature; they tell how far samples may be."""
    x, y = blobs(60)
    clf = OnlineClassifier(method).partial_fit(x, y)
    assert 0 < len(clf._model.parts["exam"]) < 10
    frozen = clf._model.frozen()
    assert frozen.calibration.temperature == (frozen._caution if method == "slda" else 1)
    assert clf.predict(np.full((1, 6), 1e6, np.float32), reject=0.5).tolist() == [None]
    other = blobs(200, seed=1)[0]
    assert (clf.novelty(other) < 3).mean() > 0.95


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize("n", [20, 50])
@pytest.mark.parametrize("lam", ["auto", "0.001"])
def test_before_there_is_an_exam_statistics_claim_no_certainty(images, n, lam, digits):
    """The complaint: 72 % of the digits right after 20 of them as images, at a mean confidence of 100 %."""
    x, y = digits
    x = (15 * x).astype(np.uint8).reshape(-1, 8, 8) if images else x
    classifier = f"gaussian:lam={lam}" + ("" if images else ":shrink=diagonal")
    clf, own = (
        OnlineClassifier("slda", classifier=classifier, exam=exam).partial_fit(x[:n], y[:n]) for exam in (20, 0)
    )
    asked = np.isin(y[1000:], clf.classes_)
    x, y = x[1000:][asked], y[1000:][asked]
    p, before = clf.predict_proba(x), own.predict_proba(x)
    assert (clf.predict(x) == own.predict(x)).all()
    assert (clf.classes_[p.argmax(1)] == clf.predict(x)).all()
    right = clf.predict(x) == y
    assert before.max(1).mean() > (0.99 if lam == "0.001" else 0.85)  # exam=0: the model's own posterior
    assert abs(p.max(1).mean() - right.mean()) < abs(before.max(1).mean() - right.mean()) - 0.05
    assert clf._model.frozen()._caution > 1


def test_caution_is_laplaces_rule_and_leaves_modest_scores_alone():
    margins = torch.tensor([[90.0, 0.0, -5.0], [0.0, 30.0, 0.0], [1.0, 2.0, 62.0]])
    t = caution(margins, samples=40)
    assert torch.softmax(torch.tensor([60.0, 0.0, 0.0]).double() / t, 0)[0].item() == pytest.approx(1 - 1 / 42)
    assert caution(margins / 100, 40) == 1.0
    assert caution(torch.ones(1, 1), 40) == caution(torch.full((2, 2), torch.nan), 3) == 1.0


def test_a_young_network_is_calibrated_by_its_memory(digits):
    """The confidence was flat until the exam had ten samples."""
    x, y = digits
    clf = OnlineClassifier().partial_fit(x[:90], y[:90])
    assert len(clf._model.frozen().held_out[1]) < 10
    p, right = clf.predict_proba(x[1200:]), clf.predict(x[1200:]) == y[1200:]
    assert abs(p.max(1).mean() - right.mean()) < 0.1
    assert (clf.classes_[p.argmax(1)] == clf.predict(x[1200:])).all()
    without = OnlineClassifier(exam=0).partial_fit(x[:90], y[:90])  # the model's own posterior was asked for
    assert without.predict_proba(x[1200:]).max(1).mean() < 0.2


def test_scores_of_rows_left_out_are_those_of_a_memory_without_them():
    x, y = blobs(24)
    clf = OnlineClassifier().partial_fit(x, y)
    frozen = clf._model.frozen()
    learner, ridge = frozen._learner, frozen._classifier
    f, labels = learner.memory_features()
    scores, classes = ridge.left_out(learner)
    assert torch.equal(classes, labels)
    z = torch.nn.functional.normalize(f.double(), dim=1)
    a = len(labels) / (len(labels.unique()) * torch.bincount(labels)[labels])  # the weights stay those of all rows
    for i in range(len(labels)):
        kept = torch.arange(len(labels)) != i
        targets = torch.nn.functional.one_hot(labels[kept], scores.shape[1]).double()
        weighted = a[kept, None] * z[kept]
        w = torch.linalg.solve(weighted.T @ z[kept] + torch.eye(z.shape[1]).double(), weighted.T @ targets)
        seen = torch.isfinite(scores[i])
        assert torch.allclose(scores[i][seen], (z[i] @ w)[seen], atol=1e-6)
