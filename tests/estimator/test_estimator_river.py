"""River's protocol on the same object, with River itself as the client."""

import numpy as np
import pandas as pd
import pytest
import torch
from test_estimator import blobs, everything, same

from mnemon import MnemonError, OnlineClassifier

river = pytest.importorskip("river")
from river import datasets, ensemble, evaluate, metrics, stream  # noqa: E402


def dicts(n, names="abcdef"):
    x, y = blobs(n)
    return [(dict(zip(names, row.tolist(), strict=True)), int(label)) for row, label in zip(x, y, strict=True)]


def test_progressive_validation_takes_it_as_its_own():
    clf = OnlineClassifier()
    metric = metrics.Accuracy() + metrics.LogLoss()
    evaluate.progressive_val_score(datasets.ImageSegments().take(150), clf, metrics.Accuracy())
    assert clf.n_seen_ == 150
    assert set(clf.classes_) == {y for _, y in datasets.ImageSegments().take(150)}
    assert evaluate.progressive_val_score(iter(dicts(100)), OnlineClassifier(), metrics.Accuracy()).get() > 0.8
    assert evaluate.progressive_val_score(iter(dicts(50)), OnlineClassifier(), metrics.MacroF1()).get() > 0.6
    assert isinstance(clf, river.base.Classifier)
    assert metric.works_with(clf)


def test_progressive_validation_with_statistics():
    clf = OnlineClassifier("slda")
    assert evaluate.progressive_val_score(iter(dicts(100)), clf, metrics.Accuracy()).get() > 0.8
    assert clf.n_seen_ == 100
    assert evaluate.progressive_val_score(
        datasets.ImageSegments().take(300), OnlineClassifier("slda"), metrics.MacroF1()
    )
    bagged = ensemble.BaggingClassifier(OnlineClassifier("slda"), n_models=3, seed=0)
    assert evaluate.progressive_val_score(iter(dicts(60)), bagged, metrics.Accuracy()).get() > 0.6


def test_a_clone_is_fresh_and_rivers_ensembles_are_made_of_it():
    body = torch.nn.Linear(6, 4)
    clf = OnlineClassifier(memory_size=50, backbone=body)
    for x, y in dicts(20):
        clf.learn_one(x, y)
    twin = clf.clone({"seed": 3})
    assert not hasattr(twin, "classes_")
    assert twin.memory_size == 50
    assert (clf.seed, twin.seed) == (0, 3)
    assert twin.backbone is not body
    assert torch.equal(twin.backbone.weight, body.weight)
    learned = clf.clone(include_attributes=True)
    assert same(everything(learned), everything(clf))
    for x, y in dicts(5):
        learned.learn_one(x, y)  # on its own
    assert (learned.n_seen_, clf.n_seen_) == (25, 20)
    with pytest.raises(MnemonError, match="no parameter 'wings'"):
        clf.clone({"wings": 2})
    bagged = ensemble.BaggingClassifier(OnlineClassifier(memory_size=50), n_models=3, seed=0)
    assert evaluate.progressive_val_score(iter(dicts(60)), bagged, metrics.Accuracy()).get() > 0.6
    assert len({model.n_seen_ for model in bagged}) > 1


def test_before_the_first_sample_nothing_is_predicted():
    clf = OnlineClassifier()
    assert clf.predict_one({"a": 1.0}) is None
    assert clf.predict_proba_one({"a": 1.0}) == {}
    assert clf.predict_many(pd.DataFrame({"a": [1.0]})).empty
    assert clf.predict_proba_many(pd.DataFrame({"a": [1.0]})).empty


@pytest.mark.parametrize("method", ["hybrid", "slda"])
def test_one_many_and_partial_fit_are_the_same_model(method):
    samples = dicts(40)
    frame = pd.DataFrame([x for x, _ in samples])
    y = pd.Series([label for _, label in samples])
    one, by_array = OnlineClassifier(method), OnlineClassifier(method)
    for i, (x, label) in enumerate(samples):
        assert one.learn_one(x, label) is None
        by_array.partial_fit(frame.iloc[i : i + 1], [label])
    assert same(everything(one), everything(by_array))
    assert one.feature_names_in_.tolist() == list("abcdef")

    many, chunk = OnlineClassifier(method), OnlineClassifier(method).partial_fit(frame, y)
    many.learn_many(frame, y)
    assert same(everything(many), everything(chunk))
    shuffled = frame[list("fbdace")].set_index(pd.Index(range(100, 140)))
    predicted = many.predict_many(shuffled)
    assert predicted.index.tolist() == list(range(100, 140))
    assert predicted.tolist() == chunk.predict(frame).tolist()
    assert np.array_equal(many.predict_proba_many(shuffled).to_numpy(), chunk.predict_proba(frame))
    p = many.predict_proba_one(samples[3][0])
    assert list(p) == chunk.classes_.tolist()
    assert sum(p.values()) == pytest.approx(1)
    assert many.predict_one(dict(reversed(samples[3][0].items()))) == chunk.predict(frame.iloc[3:4])[0]
    assert isinstance(many.predict_one(samples[0][0]), int)


def test_looking_and_learning_leave_the_sample_alone():
    clf = OnlineClassifier()
    for x, y in dicts(12):
        before = dict(x)
        clf.predict_one(x)
        clf.predict_proba_one(x)
        clf.learn_one(x, y)
        assert x == before
    state = everything(clf)
    clf.predict_one(before)
    assert same(everything(clf), state)


def test_features_are_those_of_the_first_sample():
    clf = OnlineClassifier()
    (x, y), *_ = dicts(1)
    clf.learn_one(x, y)
    state = everything(clf)
    for bad, why in [
        ({k: v for k, v in x.items() if k != "c"}, "'c' is missing"),
        (x | {"g": 1}, "'g' was not in the first sample"),
        (x | {"a": "red"}, "not a number"),
        (x | {"a": None}, "not a number|not finite|missing value"),
        (x | {"a": float("nan")}, "not finite"),
        ([1, 2], "a dict of features"),
    ]:
        for act in (lambda bad=bad: clf.learn_one(bad, y), lambda bad=bad: clf.predict_one(bad)):
            with pytest.raises(MnemonError, match=why):
                act()
    with pytest.raises(MnemonError, match="at least one"):
        OnlineClassifier().learn_one({}, 1)
    assert same(everything(clf), state)


class Counted(str):
    """A name that counts how often names are compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("act", ["learn", "predict", "frame"])
def test_the_work_for_a_sample_is_linear_in_its_features(act):
    names = [f"f{i}" for i in range(200)]
    clf = OnlineClassifier("slda")
    for label in range(2):
        clf.learn_one(dict.fromkeys(names, float(label)), label)
    sample = {Counted(name): 1.0 for name in names}
    Counted.compared = 0
    if act == "learn":
        clf.learn_one(sample, 1)
    elif act == "predict":
        assert clf.predict_one(sample) == 1
    else:
        assert clf.predict_many(pd.DataFrame([sample])).tolist() == [1]
    # Each name with each other would be 20,000 comparisons.
    assert Counted.compared <= 10 * 200


@pytest.mark.parametrize("names", [np.arange(6), np.array(list("abcdef")), range(6)], ids=["int64", "str_", "int"])
def test_names_of_numpys_types_are_plain_ones(names, tmp_path):
    x, y = blobs(20)
    clf = OnlineClassifier()
    for row, label in zip(x, y, strict=True):
        clf.learn_one(dict(zip(names, row, strict=True)), int(label))
    clf.learn_many(pd.DataFrame(x, columns=pd.Index(names, dtype=object)), y)
    clf.save(tmp_path)
    twin = OnlineClassifier.load(tmp_path)
    sample = dict(zip(np.asarray(names).tolist(), x[0].tolist(), strict=True))
    assert twin.predict_proba_one(sample) == clf.predict_proba_one(sample)


def test_names_that_could_not_be_saved_are_refused_at_the_first_sample():
    for name in (1.5, np.float64(1.5), None, ("a", "b"), True, pd.Timestamp("2024-01-01"), np.datetime64("2024-01-01")):
        clf = OnlineClassifier()
        with pytest.raises(MnemonError, match="named by a str or an int"):
            clf.learn_one({"a": 1.0, name: 2.0}, 0)
        assert not hasattr(clf, "classes_")
    x, y = blobs(4, width=2)
    for columns in (
        [0.5, 1.5],
        pd.date_range("2024-01-01", periods=2),
        pd.MultiIndex.from_product([["a"], ["b", "c"]]),
    ):
        clf = OnlineClassifier()
        with pytest.raises(MnemonError, match="named by a str or an int"):
            clf.learn_many(pd.DataFrame(x, columns=columns), y)
        assert not hasattr(clf, "classes_")
    with pytest.raises(MnemonError, match="two columns of X are called"):
        OnlineClassifier().learn_many(pd.DataFrame(x, columns=["a", "a"]), y)


def test_many_are_a_frame_or_a_list_of_dicts():
    samples, y = zip(*dicts(30), strict=True)
    frame = pd.DataFrame(list(samples))
    clf, twin = OnlineClassifier(), OnlineClassifier()
    assert clf.predict_proba_many(list(samples)).shape == (30, 0)
    clf.learn_many(frame, y)
    twin.learn_many(iter(samples), y)
    assert same(everything(clf), everything(twin))
    assert clf.predict_many(list(samples)).equals(clf.predict_many(frame))
    assert clf.predict_proba_many(list(samples)).equals(clf.predict_proba_many(frame))
    for model in (clf, OnlineClassifier()):
        for nothing in ([], pd.DataFrame(columns=list("abcdef"))):
            with pytest.raises(MnemonError, match="at least one sample"):
                model.learn_many(nothing, [])
        for wrong in (samples[0], 3, None):
            with pytest.raises(MnemonError, match="a frame or a list of dicts"):
                model.learn_many(wrong, [0])
        with pytest.raises(MnemonError, match="a sample is a dict"):
            model.learn_many(np.zeros((2, 6)), [0, 1])


def test_a_model_of_arrays_calls_its_features_by_number_and_survives_saving(tmp_path):
    x, y = blobs(30)
    clf = OnlineClassifier().partial_fit(x, y)
    for sample, label in stream.iter_array(x[:5], y[:5]):
        assert clf.predict_one(sample) == clf.predict(x[[0]])[0] or sample[0] != x[0, 0]
        clf.learn_one(sample, int(label))
    clf = OnlineClassifier()
    clf.learn_one({"w": 1, 2: 3.5}, "a")
    clf.save(tmp_path)
    twin = OnlineClassifier.load(tmp_path)
    assert twin.predict_proba_one({2: 1, "w": 0}) == clf.predict_proba_one({2: 1, "w": 0})
    images = OnlineClassifier().partial_fit(torch.zeros(2, 4, 4), [0, 1])
    with pytest.raises(MnemonError, match="learned from images"):
        images.predict_one({0: 1})


@pytest.mark.parametrize("method", ["auto", "slda"])
def test_a_sample_that_is_changed_after_it_was_learned_changes_nothing(method):
    rows = dicts(30)
    clf = OnlineClassifier(method)
    for x, y in rows:
        clf.learn_one(x, y)
    before = everything(clf)
    for x, _ in rows:
        x.update(dict.fromkeys(x, 1e9))
    assert same(everything(clf), before)


def test_rivers_way_to_change_a_model_that_learns_changes_nothing():
    clf = OnlineClassifier()
    clf.mutate({})
    with pytest.raises(
        MnemonError, match=r"lr cannot be changed after learning began; clone\(\{\.\.\.\}\) makes another"
    ):
        clf.mutate({"lr": 0.1})
    assert clf.lr is None


def test_dicts_are_sent_where_they_are_taken():
    rows = [{"a": 1.0 * i, "b": 2.0} for i in range(10)]
    clf = OnlineClassifier("slda")
    clf.learn_many(rows, [0, 1] * 5)
    for refused in (lambda: clf.predict(rows), lambda: clf.partial_fit(rows, [0, 1] * 5)):
        with pytest.raises(MnemonError, match="X is a list of dicts, which learn_many, predict_many"):
            refused()
    assert len(clf.predict_many(rows)) == 10
