"""Five complaints of a new user about 0.1, each with the default learner: what made them leave does not come back."""

import sys
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from mnemon import MnemonError, OnlineClassifier


def two_classes(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return (rng.normal(size=(n, 6)) + 2 * y[:, None]).astype(np.float32), np.array(["off", "on"])[y]


def test_one_a_change_of_concept_is_said_and_followed():
    x, y = two_classes(2400)
    other = np.where(y == "on", "off", "on")
    clf = OnlineClassifier(half_life="auto").partial_fit(x[:1000], y[:1000])
    assert clf.score(x[2000:], y[2000:]) > 0.9
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for start in range(1000, 2000, 100):
            clf.partial_fit(x[start : start + 100], other[start : start + 100])
    assert any("are no longer what they were" in str(each.message) for each in said)
    assert {label for drift in clf.drift_ for label in drift.classes} == {"off", "on"}
    for label in ("off", "on"):  # about 500 samples of each later
        here = other[2000:] == label
        assert clf.score(x[2000:][here], other[2000:][here]) > 0.9


def test_two_a_rare_class_does_not_vanish():
    rng = np.random.default_rng(0)
    rare, (x, y) = rng.normal(size=(60, 6)).astype(np.float32) - [0, 0, 6, 6, 0, 0], two_classes(3000)
    clf = OnlineClassifier(memory_size=100).partial_fit(rare[:10], ["rare"] * 10).partial_fit(x, y)
    assert (clf.predict_proba(rare[10:])[:, 0] > 0).all()
    assert (clf.predict(rare[10:]) == "rare").mean() > 0.9


def test_three_confidence_means_something():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    learn, ask = order[:1300], order[1300:]
    clf = OnlineClassifier().partial_fit(x[learn], y[learn])
    p = clf.predict_proba(x[ask])
    assert abs(p.max(1).mean() - clf.score(x[ask], y[ask])) < 0.05
    assert clf.predict_proba(np.full((1, 64), 1e6)).max() < 0.2  # ten classes: far from everything none is likelier
    assert clf.predict(np.full((1, 64), 1e6), reject=0.15).tolist() == [None]


def test_four_what_was_learned_can_be_taken_back():
    x, y = two_classes(200)
    clf = OnlineClassifier("slda", exam=0).partial_fit(x[:100], y[:100])
    clf.merge(clf.fresh().partial_fit(x[100:], y[100:])).forget(x[:50], y[:50])
    want = OnlineClassifier("slda", exam=0).partial_fit(x[50:], y[50:])
    columns = [want.classes_.tolist().index(label) for label in clf.classes_.tolist()]
    assert np.abs(clf.predict_proba(x) - want.predict_proba(x)[:, columns]).max() < 1e-4

    network = OnlineClassifier().partial_fit(x, y)
    network.forget(x[:10], y[:10]).rename({"on": "running"}).forget(label="off")
    assert network.classes_.tolist() == ["running"]
    with pytest.raises(MnemonError, match="networks cannot be merged exactly"):
        network.merge(network.fresh().partial_fit(x, y))


def calls(act):
    """Calls of Python functions and of those in C, whatever the machine does beside."""
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("method", ["auto", "slda"])
def test_five_a_sample_with_eight_times_the_features_takes_eight_times_the_calls_at_most(method):
    found = {}
    for features in (100, 800):
        rng = np.random.default_rng(0)
        rows = [dict(enumerate(row)) for row in rng.normal(size=(20, features)).tolist()]
        clf = OnlineClassifier(method, exam=0)
        clf.learn_many(rows, [0, 1] * 10)
        clf.predict_one(rows[0])
        found[features] = calls(lambda clf=clf, rows=rows: clf.predict_one(rows[1]))
    assert found[800] <= 8 * found[100]


def test_five_another_scale_is_warned_of():
    x, y = two_classes(300)
    clf = OnlineClassifier().partial_fit(x[20:] / 10, y[20:])
    with pytest.warns(UserWarning, match="were they scaled in another way"):
        clf.partial_fit(x[:20] * 255, y[:20])  # too few for drift, of which it would warn too
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OnlineClassifier().partial_fit(x[:200], y[:200]).partial_fit(x[200:], y[200:])


def test_five_a_chunk_that_is_refused_takes_no_warning_with_it():
    x, y = two_classes(300)
    clf = OnlineClassifier("slda").partial_fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(MnemonError, match="too large for its variance"):
            clf.partial_fit(x[:20] * 1e30, y[:20])
    with pytest.warns(UserWarning, match="were they scaled in another way"):
        clf.partial_fit(x[:20] * 255, y[:20])
