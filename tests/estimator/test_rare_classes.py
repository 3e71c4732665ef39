"""A class that was seen can always be predicted: it keeps rows of the memory, or the mean of its features."""

import numpy as np
import pytest
from test_estimator import everything, same

from mnemon import OnlineClassifier
from mnemon.estimator.keeping import FLOOR, floor

RESERVOIRS = ["a-gem", "der++", "er", "er-ace", "er-aml", "gmed-er", "gmed-mir", "hybrid", "hybrid-ace", "las", "mir"]
RESERVOIRS += ["pcr", "scr"]
PLACES = np.random.default_rng(5).normal(size=(40, 8)) * 3


def around(c, n, seed=0):
    """n samples of class c, or of the classes c."""
    rng = np.random.default_rng(seed)
    return (PLACES[np.broadcast_to(c, n)] + rng.normal(size=(n, 8))).astype(np.float32)


def rows(clf):
    """Memory rows of each class."""
    learner = clf._model.learner
    held = learner.memory.y[: learner.memory.size]
    return np.bincount(held[held >= 0], minlength=len(clf.classes_))


def others(n, seed=1):
    y = np.random.default_rng(seed).integers(1, 3, n)
    return around(y, n, seed), [f"other {c}" for c in y]


@pytest.mark.parametrize("when", ["first", "last"])
@pytest.mark.parametrize("seed", range(3))
def test_ten_samples_among_ten_thousand_are_still_known(when, seed):
    clf = OnlineClassifier(backbone="identity", memory_size=100, batch_size=50, seed=seed)
    chunks = [(around(0, 10, seed), ["rare"] * 10), others(10_000, seed)]
    for x, y in chunks if when == "first" else chunks[::-1]:
        clf.partial_fit(x, y)
    x = around(0, 200, 9)
    column = clf.classes_.tolist().index("rare")
    assert rows(clf)[column] == 9  # the tenth is in the exam
    assert (clf.predict_proba(x)[:, column] > 0).all()
    assert (clf.predict(x) == "rare").mean() > 0.9


@pytest.mark.parametrize("method", ["hybrid", "er", "slda"])
def test_a_network_and_statistics_know_it_too(method):
    clf = OnlineClassifier(method, memory_size=100, backbone="auto" if method == "slda" else "mlp:width=32")
    clf.partial_fit(around(0, 10), ["rare"] * 10).partial_fit(*others(2000))
    x = around(0, 200, 9)
    assert (clf.predict_proba(x)[:, 0] > 0).all()
    assert (clf.predict(x) == "rare").mean() > 0.7


@pytest.mark.parametrize("method", RESERVOIRS)
def test_whatever_the_reservoir_holds_no_class_falls_below_its_floor(method):
    y = np.repeat(np.arange(6), 60)
    clf = OnlineClassifier(method, memory_size=40, backbone="mlp:width=8").partial_fit(around(y, 360), y)
    assert (rows(clf) >= floor(40, 6)).all()
    assert rows(clf).sum() == 40


def test_the_floor_is_half_of_the_memory_at_most_and_one_row_where_there_is_one_for_each():
    assert [floor(1000, classes) for classes in (1, 50, 100, 1000, 1001)] == [FLOOR, FLOOR, 5, 1, 0]
    assert floor(0, 1) == 0


def test_frequent_classes_share_the_rest_of_the_memory_as_before():
    y = np.random.default_rng(0).choice(3, 4000, p=[0.6, 0.39, 0.01])
    clf = OnlineClassifier(backbone="identity", memory_size=200, batch_size=50).partial_fit(around(y, 4000), y)
    held = dict(zip(clf.classes_.tolist(), rows(clf), strict=True))
    assert abs(held[0] / 200 - 0.58) < 0.1
    assert held[2] >= FLOOR


# --- more classes than rows


def crowded(n=120, **given):
    """Forty classes, one after the other, and a memory of 15 rows."""
    y = np.repeat(np.arange(40), n // 40)
    clf = OnlineClassifier(**{"method": "hybrid", "backbone": "identity", "memory_size": 15} | given)
    with pytest.warns(
        UserWarning, match=r"40 classes and 15 rows in the memory: a class without a row \(now 2[5-9]\)"
    ) as said:
        clf.partial_fit(around(y, n), y)
    assert len(said) == 1
    return clf


@pytest.mark.parametrize("given", [{}, {"backbone": "mlp:width=32"}, {"method": "er", "classifier": "ridge"}])
def test_with_more_classes_than_rows_every_class_can_be_predicted(given):
    clf = crowded(**given)
    x = around(np.arange(40), 40, 7)
    assert (clf.predict_proba(x) > 0).all()
    clf.partial_fit(around(3, 5), [3] * 5)  # no second warning
    assert set(clf.predict(np.concatenate([around(np.arange(40), 40, seed) for seed in range(20)]))) >= set(range(35))


def test_their_means_are_those_of_their_samples():
    clf = crowded()
    x = around(np.arange(40), 40, 7)
    assert (clf.predict(x) == np.arange(40)).mean() > 0.9


def test_such_a_model_is_saved_and_goes_on_bit_for_bit_and_classes_are_taken_back(tmp_path):
    clf = crowded(backbone="mlp:width=8")
    clf.save(tmp_path / "model")
    loaded = OnlineClassifier.load(tmp_path / "model")
    y = np.arange(200) % 50  # ten of them new: the tables grow
    x = around(y % 40, 200)
    with pytest.warns(UserWarning, match="classes and 15 rows"):  # once for each object
        loaded.partial_fit(x, y)
    clf.partial_fit(x, y)
    assert same(everything(clf), everything(loaded))
    gone = int(np.flatnonzero(rows(clf) == 0)[0])
    label = clf.classes_[gone]
    column = clf.predict_proba(x)[:, gone + 1]
    clf.forget(label=label.item())
    assert label not in clf.classes_
    assert (clf.predict_proba(x) > 0).all()
    assert column.argmax() == clf.predict_proba(x)[:, gone].argmax()  # the next class moved up with its mean


def test_a_classifier_that_does_not_read_the_memory_needs_no_rows(recwarn):
    y = np.repeat(np.arange(40), 2)
    clf = OnlineClassifier("er", memory_size=15, backbone="mlp:width=8").partial_fit(around(y, 80), y)
    assert not recwarn
    assert (clf.predict_proba(around(0, 3)) > 0).all()


def test_statistics_never_lose_a_class():
    y = np.arange(40).repeat(2)
    clf = OnlineClassifier("slda").partial_fit(around(y, 80), y)
    assert (clf.predict(around(np.arange(40), 40, 7)) == np.arange(40)).mean() > 0.9
