"""OnlineClassifier(method="slda"): statistics instead of a network."""

import numpy as np
import pytest
from test_estimator import blobs, everything, pictures, same

from mnemon import Embedding, MnemonError, OnlineClassifier
from mnemon.learning.gaussian import Gaussian

SMALL = "patches:filters=6:images=20:side=4"


def test_vectors_are_features_already():
    x, y = blobs(300)
    clf = OnlineClassifier("slda").fit(x[:200], y[:200])
    assert clf.score(x[200:], y[200:]) > 0.9
    assert type(clf._model.learner.net.backbone).__name__ == "Flatten"
    p = clf.predict_proba(x)
    assert np.allclose(p.sum(1), 1)
    assert (clf.classes_[p.argmax(1)] == clf.predict(x)).all()


def test_chunks_do_not_matter():
    x, y = blobs(120)
    whole, parts = OnlineClassifier("slda").partial_fit(x, y), OnlineClassifier("slda")
    for start in range(0, 120, 7):
        parts.partial_fit(x[start : start + 7], y[start : start + 7])
    order = [list(parts.classes_).index(label) for label in whole.classes_]
    assert np.allclose(parts.predict_proba(x)[:, order], whole.predict_proba(x), atol=1e-4)


@pytest.mark.parametrize("chunk", [7, 64, 400])
def test_the_units_of_the_features_do_not_matter(chunk):
    """Probabilities agree to 1e-3: units that are no powers of 2 round each value."""
    x, y = blobs(400, width=13)
    x += np.random.default_rng(1).normal(size=x.shape).astype(np.float32) * 4  # so that every feature is needed
    x[:, 5] = 4.0  # a constant column
    x[:, 6] += 0.9 * x[:, 7]
    expected = OnlineClassifier("slda").partial_fit(x, y)
    units = np.logspace(-6, 6, 13).astype(np.float32)
    clf = OnlineClassifier("slda")
    for start in range(0, 400, chunk):
        clf.partial_fit((x * units)[start : start + chunk], y[start : start + chunk])
    assert (clf.predict(x * units) == expected.predict(x)).all()
    assert np.allclose(clf.predict_proba(x * units), expected.predict_proba(x), atol=1e-3)
    large = OnlineClassifier("slda", classifier="gaussian").partial_fit(x * units, y)
    assert large.score(x * units, y) < clf.score(x * units, y) - 0.1  # the mean variance is that of one feature


def test_vectors_have_the_diagonal_images_the_identity_and_what_is_named_is_taken(tmp_path):
    x, y = blobs(30)
    clf = OnlineClassifier("slda").partial_fit(x, y)
    assert clf._model.choice.classifiers[0].name == "gaussian:lam=auto:shrink=diagonal"
    clf.save(tmp_path)
    twin = OnlineClassifier.load(tmp_path)
    assert twin.classifier is None
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()
    assert OnlineClassifier("slda", classifier="gaussian").fit(x, y)._model.choice.classifiers[0].name == "gaussian"
    ready = OnlineClassifier("slda", backbone="identity").fit(x, y)
    assert ready._model.choice.classifiers[0].name == "gaussian:lam=auto:shrink=diagonal"
    pixels = OnlineClassifier("slda", backbone=SMALL).partial_fit(*pictures(30, channels=3))
    assert pixels._model.choice.classifiers[0].name == "gaussian:lam=auto"
    with pytest.raises(MnemonError, match="shrink"):
        OnlineClassifier("slda", classifier="gaussian:shrink=none").fit(x, y)


@pytest.mark.filterwarnings("ignore:on more than half of the features")
def test_values_whose_squares_are_too_large_spoil_nothing():
    x, y = blobs(40)
    clf = OnlineClassifier("slda").partial_fit(x, y)
    before = everything(clf)
    with pytest.raises(MnemonError, match="too large for its variance"):
        clf.partial_fit(x * np.float32(1e25), y)
    assert same(everything(clf), before)


def test_a_large_chunk_is_added_in_few_blocks_and_whole_or_not_at_all(monkeypatch):
    """Blocks change the result by rounding only: probabilities agree to 1e-4."""
    x, y = blobs(9_005)
    parts = OnlineClassifier("slda", exam=0)
    for start in range(0, len(x), 1000):
        parts.partial_fit(x[start : start + 1000], y[start : start + 1000])
    sizes = []
    add = Gaussian.add
    monkeypatch.setattr(Gaussian, "add", lambda self, f, c: (sizes.append(len(f)), add(self, f, c)))
    whole = OnlineClassifier("slda", exam=0).partial_fit(x, y)
    assert sizes == [4090, 4090, 820, 5]
    assert whole.n_seen_ == parts.n_seen_ == 9_005
    assert np.allclose(whole.predict_proba(x), parts.predict_proba(x), atol=1e-4)
    before = everything(whole)

    def interrupted(self, f, c):
        if len(f) == 820:
            raise KeyboardInterrupt
        add(self, f, c)

    monkeypatch.setattr(Gaussian, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        whole.partial_fit(x + 1, y)
    assert same(everything(whole), before)


@pytest.mark.parametrize("learned", [8, 60])  # the first images still wait, or not any more
def test_images_have_patches_and_going_on_after_load_is_the_same(learned, tmp_path):
    x, y = pictures(100, channels=3)
    clf = OnlineClassifier("slda", backbone=SMALL).partial_fit(x[:learned], y[:learned])
    clf.save(tmp_path)
    twin = OnlineClassifier.load(tmp_path)
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()
    for model in (clf, twin):
        model.partial_fit(x[learned:], y[learned:])
    assert same(everything(twin), everything(clf))
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()


def test_a_chunk_that_fails_leaves_everything_as_it_was(monkeypatch):
    x, y = pictures(60, channels=3)
    clf = OnlineClassifier("slda", backbone=SMALL).partial_fit(x[:15], y[:15])
    before, p = everything(clf), clf.predict_proba(x)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mnemon.estimator.batches._check_finite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clf.partial_fit(x[15:], y[15:])
    assert same(everything(clf), before)
    assert (clf.predict_proba(x) == p).all()


def test_what_it_has_no_use_for_is_refused():
    x, y = blobs(30)
    with pytest.raises(MnemonError, match="slda trains nothing and has no option 'lr'"):
        OnlineClassifier("slda", lr=0.1).fit(x, y)
    with pytest.raises(MnemonError, match="slda trains nothing, and mlp is nothing before it is trained"):
        OnlineClassifier("slda", backbone="mlp").fit(x, y)
    with pytest.raises(MnemonError, match="hybrid trains its network, and patches are fitted"):
        OnlineClassifier("hybrid", backbone="patches").fit(*pictures(30, channels=3))


@pytest.mark.filterwarnings("ignore:drift")
def test_shrinkage_falls_as_samples_come_but_not_with_those_that_fade():
    x, y = blobs(600)
    classes = len(np.unique(y))

    def shrinkage(clf):
        return clf._model.learner.shrinkage()

    whole = OnlineClassifier("slda", exam=0).partial_fit(x[:60], y[:60])
    assert shrinkage(whole) == 10 * classes / 60
    whole.partial_fit(x[60:], y[60:])
    assert shrinkage(whole) == 10 * classes / 600
    for c in range(classes):
        whole._model.learner.discount(c)  # all have drifted: the covariance stays, and what is known of it
    assert shrinkage(whole) == 10 * classes / 600
    whole.forget(label=y[0])
    assert shrinkage(whole) == pytest.approx(10 * (classes - 1) / (y != y[0]).sum())
    fading = OnlineClassifier("slda", exam=0, half_life=20).partial_fit(x, y)
    assert 5 / 20 < shrinkage(fading) < 9 / 20


def test_with_two_views_an_image_and_its_mirror_image_are_one(tmp_path):
    x, y = pictures(60, channels=3)
    x[:, :, :4] //= 2  # left and right differ
    mirrored = x[:, :, ::-1].copy()
    one, both = (OnlineClassifier(backbone=SMALL, views=views).partial_fit(x, y) for views in (1, 2))
    assert not np.allclose(one.predict_proba(x), one.predict_proba(mirrored), atol=1e-3)
    assert np.allclose(both.predict_proba(x), both.predict_proba(mirrored), atol=1e-6)
    assert both.resolved_["method"] == "slda"
    assert both.n_seen_ == 60
    both.save(tmp_path)
    loaded = OnlineClassifier.load(tmp_path)
    assert loaded.views == 2
    for each in (both, loaded):
        each.partial_fit(x[:20], y[:20])
    assert same(everything(loaded), everything(both))
    with pytest.raises(MnemonError, match="mirror images too cannot be merged"):
        both.merge(one)


@pytest.mark.parametrize(
    ("given", "data", "sentence"),
    [
        ({"views": 3}, pictures, "views must be at most 2, not 3"),
        ({"views": True}, pictures, "views must be of type int, not True"),
        ({"views": 2}, blobs, "a mirror image needs images"),
        (
            {"views": 2, "method": "hybrid"},
            pictures,
            "hybrid learns one view of a sample; views is for slda, scr and pcr",
        ),
        ({"views": 2, "lr": 0.1}, pictures, "lr asks for a network, and views=2 for statistics"),
        ({"views": 2, "backbone": "mlp"}, pictures, "backbone='mlp' asks for a network, and views=2 for statistics"),
        ({"views": 2, "backbone": Embedding(np.asarray)}, blobs, "behind an embedding function there are vectors"),
    ],
)
def test_views_that_there_cannot_be_are_refused(given, data, sentence):
    clf = OnlineClassifier(**given)
    with pytest.raises(MnemonError, match=sentence):
        clf.partial_fit(*data(30))
    assert not hasattr(clf, "classes_")


def test_one_view_is_what_every_method_learns():
    for views in (1, np.int64(1)):
        assert OnlineClassifier(views=views).partial_fit(*blobs(30)).resolved_["method"] == "hybrid"
        assert OnlineClassifier("er", views=views).partial_fit(*blobs(30)).n_seen_ == 30


def test_the_views_of_a_sample_are_of_one_age():
    """With a half-life the mirror images of a chunk do not outweigh its images, however large it is."""
    x, y = pictures(200, channels=3)
    whole, single = (OnlineClassifier(backbone=SMALL, views=2, half_life=10) for _ in range(2))
    whole.partial_fit(x, y)
    for start in range(0, 200, 5):
        single.partial_fit(x[start : start + 5], y[start : start + 5])
    np.testing.assert_allclose(whole.predict_proba(x), single.predict_proba(x), atol=1e-4)
