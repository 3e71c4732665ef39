"""OnlineClassifier(method="slda"): statistics instead of a network."""

import numpy as np
import pytest
from test_estimator import blobs, everything, pictures, same

from mnemon import MnemonError, OnlineClassifier

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
        patch.setattr("mnemon.estimator.model.Model._check_finite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clf.partial_fit(x[15:], y[15:])
    assert same(everything(clf), before)
    assert (clf.predict_proba(x) == p).all()


def test_what_it_has_no_use_for_is_refused():
    x, y = blobs(30)
    with pytest.raises(MnemonError, match="slda with the loss none has no option 'lr'"):
        OnlineClassifier("slda", lr=0.1).fit(x, y)
    with pytest.raises(MnemonError, match="slda trains nothing, and mlp is nothing before it is trained"):
        OnlineClassifier("slda", backbone="mlp").fit(x, y)
    with pytest.raises(MnemonError, match="hybrid trains its network, and patches are fitted"):
        OnlineClassifier(backbone="patches").fit(*pictures(30, channels=3))
