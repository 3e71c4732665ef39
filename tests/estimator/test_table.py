"""Open tables: missing values, categories, features that come later; by stated rules, exact where the learner is."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_estimator import blobs, everything, same
from test_estimator_saving import forge
from torch import nn

from mnemon import MnemonError, OnlineClassifier
from mnemon.estimator import batches
from mnemon.estimator import table as table_module
from mnemon.estimator.cells import read
from mnemon.estimator.table import Table

WORDS = ["red", "green", "blue"]


def stream(n, seed=0):
    """Dicts with a number, one that is often missing, a category, and a number that comes with the second third."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = []
    for i, c in enumerate(y.tolist()):
        x = {
            "size": float(rng.normal(1000 + c)),
            "weight": float(rng.normal(-2 * c)),
            "colour": WORDS[c - rng.integers(2)],
        }
        if rng.random() < 0.3:
            x["weight"] = None
        if i >= n // 3:
            x["late"] = float(rng.normal(3 * c, 1))
        X.append(x)
    return X, y.tolist()


def open_model(method="slda", **given):
    return OnlineClassifier(method, features="open", **given)


def columns(clf, X):
    """What the learner is handed."""
    return clf._read(X, clf._model, clf._model.table).tolist()


# --- the rules, one by one


def test_a_missing_number_is_the_mean_of_its_first_chunk_and_marked():
    clf = open_model().partial_fit([{"a": 1.0, "b": 5}, {"a": 3.0, "b": 6}], [0, 1])
    assert columns(clf, [{"a": 7, "b": 8}]) == [[7, 8]]  # nothing was missing so far: no more columns than features
    clf.partial_fit([{"a": None, "b": 9}], [0])
    assert columns(clf, [{"a": 7, "b": 8}, {"b": 8, "a": float("nan")}, {"a": 1}]) == [
        [7, 8, 0],
        [2, 8, 1],
        [1, 5.5, 0],
    ]  # b was never missing: its mean stands in, with nothing to mark it
    clf.partial_fit([{"a": 100.0, "b": 1}] * 5, [1] * 5)
    assert columns(clf, [{}])[0][0] == 2  # the mean does not move


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, np.nan], ids=str)
def test_what_is_missing(missing):
    clf = open_model().partial_fit([{"a": 1.0, "c": "u"}, {"a": missing, "c": missing}], [0, 1])
    assert columns(clf, [{"a": missing, "c": missing}, {}]) == [[1, 1, 0, 1]] * 2
    frame = pd.DataFrame({"a": [1.0, missing], "c": ["u", missing]}, dtype=object)
    assert same(everything(open_model().partial_fit(frame, [0, 1])), everything(clf))


def test_categories_have_a_column_each_and_an_unknown_one_has_none():
    clf = open_model().partial_fit([{"c": "u"}, {"c": "v"}, {"c": "u"}], [0, 1, 0])
    assert columns(clf, [{"c": "u"}, {"c": "v"}, {"c": "w"}, {}]) == [[1, 0], [0, 1], [0, 0], [0, 0]]
    clf.partial_fit([{"c": "w"}], [1])
    assert columns(clf, [{"c": "w"}, {"c": "u"}]) == [[0, 0, 1], [1, 0, 0]]
    assert clf.n_features_in_ == 1


def test_bools_and_ints_of_type_category_are_categories_and_true_is_not_1():
    frame = pd.DataFrame({"b": [True, False], "c": pd.Categorical([1, 7]), "n": [1, 7]})
    clf = open_model().partial_fit(frame, [0, 1])
    assert columns(clf, frame) == [[1, 0, 1, 0, 1], [0, 1, 0, 1, 7]]
    assert columns(clf, [{"b": 1, "c": True, "n": 2}]) == [[0, 0, 0, 0, 2]]
    assert columns(clf, [{"b": np.True_, "c": 1.0, "n": np.int8(2)}]) == [[1, 0, 1, 0, 2]]


def test_after_a_hundred_categories_the_others_share_a_column():
    clf = open_model().partial_fit([{"c": f"{i}"} for i in range(100)], [i % 2 for i in range(100)])
    assert clf._model.table.width == 100
    clf.partial_fit([{"c": "one more"}, {"c": "another"}], [0, 1])
    assert clf._model.table.width == 101
    assert np.argmax(columns(clf, [{"c": "never seen"}, {"c": "99"}]), 1).tolist() == [100, 99]


def test_a_later_feature_was_missing_in_all_samples_before():
    clf = open_model().partial_fit([{"a": 1.0}, {"a": 2.0}], [0, 1])
    clf.partial_fit([{"a": 3.0, "late": 8.0, "word": "u"}], [0])
    assert clf.feature_names_in_.tolist() == ["a", "late", "word"]
    assert clf.n_features_in_ == 3
    assert columns(clf, [{"a": 1.0}]) == [[1, 8, 1, 0, 1]]
    assert columns(clf, [{"a": 1.0, "late": 7, "word": "u", "unknown": object()}]) == [[1, 7, 0, 1, 0]]


def test_a_feature_without_a_value_is_noted_and_has_no_column_yet():
    clf = open_model().partial_fit(pd.DataFrame({"a": [1.0, 2.0], "b": [None, None]}), [0, 1])
    assert (clf.n_features_in_, clf._model.table.width) == (2, 1)
    clf.partial_fit(pd.DataFrame({"a": [1.0], "b": ["u"]}), [0])
    assert columns(clf, [{"a": 1.0}]) == [[1, 0, 1]]
    assert clf.feature_names_in_.tolist() == ["a", "b"]


def test_arrays_have_nan_objects_and_masks():
    x = np.array([[1.0, np.nan], [3.0, 4.0]])
    by_array = open_model().partial_fit(x, [0, 1])
    by_mask = open_model().partial_fit(np.ma.masked_invalid(x), [0, 1])
    assert same(everything(by_array), everything(by_mask))
    assert columns(by_array, x) == [[1, 4, 1], [3, 4, 0]]
    mixed = [[1.0, "u"], [2.0, None]]
    clf = open_model().partial_fit(mixed, [0, 1])
    assert columns(clf, mixed) == [[1, 1, 0], [2, 0, 1]]
    assert columns(clf, np.ma.array(np.array(mixed, object), mask=[[1, 0], [0, 1]])) == [[1.5, 1, 0], [2, 0, 1]]
    assert columns(clf, [{0: 5, 1: "u"}]) == [[5, 1, 0]]
    assert not hasattr(clf, "feature_names_in_")
    with pytest.raises(MnemonError, match="X has 3 features, but OnlineClassifier is expecting 2"):
        clf.predict(np.zeros((1, 3)))


def test_bools_are_categories_in_arrays_as_in_frames():
    x = np.array([[True, False], [False, False], [True, True], [False, True]])
    frame = pd.DataFrame(x, columns=[0, 1])
    clf = open_model().partial_fit(frame, [0, 1, 0, 1])
    for other in (x, x.tolist(), np.ma.array(x, mask=False)):
        assert columns(clf, other) == columns(clf, frame)
        assert same(everything(open_model().partial_fit(other, [0, 1, 0, 1])), everything(clf))
    numbers = open_model().partial_fit(x.astype(float), [0, 1, 0, 1])  # as bool arrays were learned before
    assert columns(numbers, x) == x.astype(float).tolist()


def test_a_misspelled_name_is_said_when_predicting():
    rows = [{"heat": 10.0 * (i % 2) + i / 40, "shake": 1.0, "line": "ab"[i % 2]} for i in range(40)]
    clf = OnlineClassifier("slda", features="open").partial_fit(rows, ["cold", "hot"] * 20)
    asked = [{"Heat": row["heat"], "shake": 1.0, "line": row["line"]} for row in rows[:4]]
    with pytest.warns(UserWarning, match=r"lack features that were learned \('heat'\) and have others .* \('Heat'\)"):
        clf.predict(asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict([{"shake": 1.0, "line": "a"}] * 4)  # missing alone …
        clf.predict([row | {"note": "x"} for row in rows[:4]])  # … or more alone is what an open table is for
        clf.predict_one(asked[0])
        clf.partial_fit(asked, ["cold", "hot"] * 2)  # from here on it is a feature


def test_a_feature_of_which_no_value_was_learned_is_said_when_predicting():
    clf = open_model().partial_fit([{"c": "True", "a": 1.0}, {"c": "False", "a": 2.0}], [0, 1])
    with pytest.warns(UserWarning, match=r"no value of the feature 'c' .* one is True \(bool\), and .* 'True' \(str\)"):
        clf.predict([{"c": True, "a": 1.0}, {"c": False, "a": 2.0}])
    clf.predict([{"c": True, "a": 1.0}])  # one sample may have anything
    clf.predict([{"c": True, "a": 1.0}, {"c": "True", "a": 1.0}])
    clf.predict([{"a": 1.0}, {"a": 1.0}])


def arrivals(n, seed=0):
    """Two numbers that tell the class, and a category that is rare in one class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    one, two = 3 * y + rng.normal(size=(2, n))
    rare = np.where(rng.random(n) < np.where(y == 1, 0.25, 0.03), "rare", "usual")
    return [{"one": a, "two": b, "kind": str(c)} for a, b, c in zip(one, two, rare, strict=True)], y.tolist()


@pytest.mark.parametrize("given", [{"method": "slda"}, {"method": "hybrid", "classifier": "ridge"}], ids=str)
@pytest.mark.parametrize("lacking", ["one", "kind", "unknown"])
def test_a_sample_that_lacks_what_none_lacked_before_is_predicted_without_it(given, lacking):
    X, y = arrivals(500)
    clf = OnlineClassifier(**given, features="open", exam=0)
    for x, label in zip(X[:60], y[:60], strict=True):  # the first chunk is one sample: its mean is that sample
        clf.learn_one(x, label)
    clf.partial_fit(X[60:], y[60:])
    new, truth = arrivals(400, seed=1)
    if lacking == "unknown":
        asked = [x | {"kind": "never seen"} for x in new]
        lacking = "kind"
    else:
        asked = [{name: value for name, value in x.items() if name != lacking} for x in new]
    fewer = [{name: value for name, value in x.items() if name != lacking} for x in X]
    without = OnlineClassifier(**given, features="open", exam=0).partial_fit(fewer, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the category that was never learned
        assert clf.score(asked, truth) > without.score(asked, truth) - 0.02
        share = np.mean(clf.predict(asked)), np.mean(without.predict(asked))
    assert abs(share[0] - share[1]) < 0.05  # neither class gains from what is not known


def test_numbers_that_numpy_made_text_of_are_said():
    mixed = [[1.0, "x"], [2.0, "y"]]
    with pytest.warns(UserWarning, match=r"the numbers in its column 0 are text too and become categories"):
        open_model().partial_fit(np.array(mixed), [0, 1])
    open_model().partial_fit(mixed, [0, 1])
    open_model().partial_fit(np.array(mixed, object), [0, 1])
    open_model().partial_fit(np.array([["u", "x"], ["v", "y"]]), [0, 1])


# --- the same numbers as before, and as any other way


@pytest.mark.parametrize("method", ["hybrid", "slda"])
def test_plain_numbers_give_the_model_that_fixed_features_give(method):
    x, y = blobs(60)
    frame = pd.DataFrame(x, columns=list("abcdef"))
    plain, opened = OnlineClassifier(method), open_model(method)
    for part in np.array_split(np.arange(60), 4):
        plain.partial_fit(frame.iloc[part], y[part])
        opened.partial_fit(frame.iloc[part], y[part])
    assert same(everything(opened), everything(plain))
    assert (opened.predict_proba(frame) == plain.predict_proba(frame)).all()
    one = open_model(method)
    for sample, label in zip(frame.to_dict("records")[:12], y, strict=False):
        one.learn_one(sample, label)
    assert one.predict_one(frame.to_dict("records")[0]) in y


@pytest.mark.parametrize("method", ["hybrid", "er", "slda"])
def test_the_order_of_keys_and_of_columns_means_nothing(method):
    """Nor that of values that are first missing, and of features without one, in one chunk. Names stay as they came."""
    X = [
        {"b": 1.0, "a": None, 10: 0.5, 9: None},
        {"b": 2.0, "a": 3.0, 10: None, 9: "u"},
        {"c": "x", "aa": 1.0, "b": None},
    ] * 8
    y = ["one", "two", "three"] * 8
    clf, turned = open_model(method), open_model(method)
    for x, label in zip(X, y, strict=True):
        clf.learn_one(x, label)
        turned.learn_one(dict(reversed(x.items())), label)
    assert same(everything(clf), everything(turned))
    assert turned._model.table.names == [9, 10, "a", "b", "aa", "c"]
    assert (clf.predict_proba(X) == turned.predict_proba(X)).all()
    frame = pd.DataFrame({"b": [1.0, 2.0], "a": [3.0, 5.0]})
    by_frame, by_other = open_model(method).fit(frame, [0, 1]), open_model(method).fit(frame[["a", "b"]], [0, 1])
    assert same(everything(by_frame), everything(by_other))
    assert by_frame.feature_names_in_.tolist() == ["b", "a"]


def close(a, b, X):
    assert a.classes_.tolist() == b.classes_.tolist()
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=2e-4)


def test_statistics_are_as_if_all_columns_had_been_there_from_the_start():
    """A table with all columns, whose first chunk is the same, learns what the one that grew has learned."""
    X, y = stream(300)
    grown = open_model(exam=0)
    for start in range(0, 300, 30):
        grown.partial_fit(X[start : start + 30], y[start : start + 30])
    wide = OnlineClassifier("slda", exam=0).partial_fit(grown._read(X, grown._model, grown._model.table).numpy(), y)
    state, other = everything(grown)[0], everything(wide)[0]
    for name in ("counts", "means", "scatter", "weight"):
        a, b = state[f"statistics.{name}"].double(), other[f"statistics.{name}"].double()
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(b.abs().max()))
    assert grown.score(X, y) > 0.9


@pytest.mark.parametrize(
    "given", [{}, {"method": "er"}, {"backbone": "identity"}, {"method": "gmed-er"}, {"method": "scr"}], ids=str
)
def test_a_network_predicts_the_same_the_moment_a_column_comes(given):
    X, y = stream(90)
    clf = OnlineClassifier(features="open", memory_size=40, **given).partial_fit(X[:30], y[:30])
    before = clf.predict_proba(X[:30])
    _, parts = clf._model.wider([8.0, 1.0])
    assert parts["exam"].inputs.shape == (clf._model.inputs.shape[0] + 2,)
    growth = clf._model.table.learn(read([{"size": 1.0, "late": 8.0}], ()))
    with clf._model.grown(growth):
        clf._model._frozen = None
        np.testing.assert_allclose(clf.predict_proba(X[:30]), before, atol=1e-5)
    for start in range(30, 90, 7):
        clf.partial_fit(X[start : start + 7], y[start : start + 7])
    assert clf._model.learner.memory.x.shape[1] == clf._model.table.width
    assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize("method", ["hybrid", "slda", "er"])
def test_an_open_table_is_learned_and_frames_and_dicts_are_one(method):
    X, y = stream(600)
    clf, by_frame = open_model(method), open_model(method)
    for start in range(0, 450, 50):
        rows = X[start : start + 50]
        clf.learn_many(rows, y[start : start + 50])
        by_frame.partial_fit(
            pd.DataFrame(rows, columns=list(dict.fromkeys(k for x in rows for k in x))), y[start : start + 50]
        )
    assert same(everything(clf), everything(by_frame))
    assert clf.score(X[450:], y[450:]) > 0.75
    assert clf.predict_many(pd.DataFrame(X[450:])).tolist() == clf.predict(X[450:]).tolist()
    assert sum(clf.predict_proba_one({}).values()) == pytest.approx(1)


# --- taking back, merging, saving


@pytest.mark.parametrize("chunk", [1, 25])
def test_statistics_forget_samples_of_a_table_exactly(chunk):
    X, y = stream(150)
    clf, never = open_model(exam=0), open_model(exam=0)
    gone = [i for i in range(150) if i % 3 == 1]
    for start in range(0, 150, chunk):
        clf.partial_fit(X[start : start + chunk], y[start : start + chunk])
    never.partial_fit(X[:25] if chunk == 25 else X[:1], y[:25] if chunk == 25 else y[:1])
    clf.forget([X[i] for i in gone], [y[i] for i in gone])
    left = [i for i in range(150) if i not in gone]
    wide = OnlineClassifier("slda", exam=0).partial_fit(
        np.array(columns(clf, [X[i] for i in left])), [y[i] for i in left]
    )
    np.testing.assert_allclose(
        everything(clf)[0]["statistics.means"], everything(wide)[0]["statistics.means"][np.argsort(wide.classes_)][
            np.argsort(np.argsort(clf.classes_))
        ], rtol=1e-3, atol=1e-3,
    )  # fmt: skip
    assert clf.n_seen_ == 100


def test_what_cannot_have_been_learned_cannot_be_forgotten():
    clf = open_model().partial_fit([{"a": 1.0, "c": "u"}, {"a": 2.0, "c": "v"}], [0, 1])
    before = everything(clf)
    for bad, why in [
        ({"a": 1.0, "c": "w"}, "never had the category 'w'"),
        ({"a": 1.0}, "'c' was never missing"),
        ({"c": "u"}, "'a' was never missing"),
        ({"a": 1.0, "c": "u", "z": 3}, "'z' has no value in any sample"),
    ]:
        with pytest.raises(MnemonError, match=why):
            clf.forget([bad], [0])
    assert same(everything(clf), before)


def test_a_network_finds_the_samples_of_a_table_in_its_memory():
    X, y = stream(60)
    clf = open_model("er", memory_size=100)
    for start in range(0, 60, 6):
        clf.partial_fit(X[start : start + 6], y[start : start + 6])
    gone = np.array(columns(clf, X[:20]), np.float32)  # learned before the later feature came
    clf.forget(X[:20], y[:20])
    kept = clf._model.learner.memory.x[:100].numpy()
    assert not (kept[:, None] == gone).all(2).any()
    assert clf.rename({0: "zero"}).predict(X[:5]).shape == (5,)


def test_merged_tables_are_one_that_learned_both():
    """With other columns in another order, other fills, features and categories that only one of them has."""
    X, y = stream(200)
    theirs = [{"extra": float(i % 5), **dict(reversed(x.items()))} for i, x in enumerate(stream(120, seed=1)[0])]
    theirs[7]["colour"] = "violet"
    for i in range(0, 120, 4):
        theirs[i].pop("size")
    their_y = [*stream(120, seed=1)[1][:-1], "new"]
    a, b = open_model(exam=0), open_model(exam=0)
    a.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    b.partial_fit(theirs[40:], their_y[40:]).partial_fit(theirs[:40], their_y[:40])
    kept = everything(b)
    whole = open_model(exam=0).partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    whole.partial_fit(theirs[40:], their_y[40:]).partial_fit(theirs[:40], their_y[:40])
    a.merge(b)
    assert same(everything(b), kept)
    assert sorted(a.feature_names_in_) == sorted(whole.feature_names_in_)
    assert a.n_seen_ == 320
    for X_ in (X, theirs, [{}, {"extra": 2.0}]):
        close(a, whole, X_)
    a.partial_fit(theirs[:5], their_y[:5])
    assert a.n_features_in_ == 5


def test_tables_that_cannot_be_one_are_refused():
    a = open_model().partial_fit([{"a": 1.0}, {"a": 2.0}], [0, 1])
    many = [open_model().partial_fit([{"c": f"{s}{i}"} for i in range(101)], [i % 2 for i in range(101)]) for s in "uv"]
    for mine, other, why in [
        (
            a,
            open_model().partial_fit([{"a": "u"}, {"a": "v"}], [0, 1]),
            "'a' holds numbers in one model and categories",
        ),
        (a, OnlineClassifier("slda").partial_fit([[1.0], [2.0]], [0, 1]), "whose features are fixed"),
        (*many, "more than 100 categories"),
    ]:
        before = everything(mine)
        with pytest.raises(MnemonError, match=why):
            mine.merge(other)
        assert same(everything(mine), before)


@pytest.mark.parametrize("method", ["hybrid", "slda"])
def test_a_saved_table_goes_on(method, tmp_path):
    X, y = stream(120)
    X[3]["flag"], X[4]["flag"], X[5][7] = True, "é\ud800\0", 3
    clf = open_model(method, memory_size=30).partial_fit(X[:50], y[:50])
    clf.save(tmp_path)
    twin = OnlineClassifier.load(tmp_path)
    assert twin._model.table == clf._model.table
    for each in (clf, twin):
        each.partial_fit(X[50:], y[50:])
    assert same(everything(twin), everything(clf))
    assert (twin.predict_proba(X) == clf.predict_proba(X)).all()
    assert twin.clone().features == twin.fresh().features == "open"


def forged(tmp_path, change):
    open_model().partial_fit([{"a": 1.0, "c": "u"}, {"c": "v"}], [0, 1]).save(tmp_path / "model")
    forge(tmp_path / "model", change)
    return OnlineClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.pop("table"),
        lambda v: v.update(table=3),
        lambda v: v.update(table=[]),
        lambda v: v["params"].pop("features"),
        lambda v: v["table"].pop(),
        lambda v: v["table"].append(v["table"][0]),
        lambda v: v["table"][0].update(value=1),
        lambda v: v["table"][0].update(value=10**9),
        lambda v: v["table"][0].update(value=True),
        lambda v: v["table"][0].update(fill=1e308),
        lambda v: v["table"][0].update(fill=0.1),
        lambda v: v["table"][0].update(fill="1"),
        lambda v: v["table"][0].update(kind="word"),
        lambda v: v["table"][0].update(kind=None),
        lambda v: v["table"][0].update(kind="category"),
        lambda v: v["table"][0].update(name=None),
        lambda v: v["table"][0].update(name="c"),
        lambda v: v["table"][0].update(more=1),
        lambda v: v["table"][1].update(categories=[["u", 2], ["u", 3]]),
        lambda v: v["table"][1].update(categories=[[None, 2], ["u", 3]]),
        lambda v: v["table"][1].update(categories=[[["u"], 2], ["u", 3]]),
        lambda v: v["table"][1].update(categories={"u": 2}),
        lambda v: v.update(names=["a", "b", "c", "d"]),
    ],
)
def test_a_forged_table_is_refused(tmp_path, change):
    with pytest.raises(MnemonError, match="cannot be loaded"):
        forged(tmp_path, change)


class Kept:
    """A part that keeps samples, as the exam of a model does."""

    def __init__(self, x):
        self.x = x

    def copy(self):
        return Kept(self.x)

    def recode(self, a, b):
        self.x = (self.x.double() @ a.T + b).float()

    def merge(self, other, classes):
        self.x = torch.cat([self.x, other.x])


def test_samples_that_a_part_keeps_get_the_columns_too():
    X, y = stream(60)
    a, b = open_model().partial_fit(X[:15], y[:15]), open_model().partial_fit(X[45:], y[45:])
    for clf, mine in ((a, X[:15]), (b, X[45:])):
        clf._model.parts["kept"] = Kept(clf._read(mine, clf._model, clf._model.table))
    a.partial_fit([{"size": 3.0, "new": 1.0, "colour": "violet"}], [0])
    assert a._model.parts["kept"].x.tolist() == columns(a, X[:15])
    a.merge(b)
    np.testing.assert_allclose(a._model.parts["kept"].x, columns(a, X[:15] + X[45:]), rtol=1e-6)


def test_types_of_pandas_that_know_of_missing_values():
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None, 3], "Int64"),
            "f": pd.array([0.5, None, 1.5], "Float64"),
            "b": pd.array([True, None, False], "boolean"),
            "s": pd.array(["u", None, "v"], "string"),
            "c": pd.Categorical(["x", None, "y"]),
        }
    )
    clf = open_model().partial_fit(frame, [0, 1, 0])
    cells = [{k: None if pd.isna(v) else v for k, v in row.items()} for row in frame.astype(object).to_dict("records")]
    assert columns(clf, frame) == columns(clf, cells)
    assert columns(clf, frame.iloc[1:2]) == [[0, 0, 1, 0, 0, 1, 1, 1, 2, 1, 0, 0, 1]]  # b, c, f, i, s


def test_the_page_runs_as_it_is_written():
    page = (Path(__file__).parents[2] / "docs" / "classifier.md").read_text(encoding="utf-8")
    section = page.split("\n## Tables with gaps")[1].split("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {}
    exec(block, names)
    assert names["clf"].feature_names_in_.tolist() == ["length", "colour", "weight"]


# --- what is refused


def test_features_is_a_word_and_a_network_of_ones_own_has_one_width():
    for features in ("closed", None, 1, True):
        with pytest.raises(MnemonError, match="features is 'fixed' or 'open'"):
            OnlineClassifier(features=features).partial_fit([[1.0]], [0])
    with pytest.raises(MnemonError, match="a network of your own"):
        open_model("er", backbone=nn.Linear(1, 2)).partial_fit([[1.0]], [0])
    with pytest.raises(MnemonError, match=r"features='open'\) takes missing values"):
        OnlineClassifier().partial_fit([[1.0]], [0]).learn_one({}, 1)


def test_more_columns_than_can_be_learned_are_refused(monkeypatch):
    monkeypatch.setattr(table_module, "MOST_COLUMNS", 5)
    clf = open_model().partial_fit([{"a": 1.0}], [0])
    before = everything(clf)
    with pytest.raises(MnemonError, match="take 7 columns, and at most 5"):
        clf.partial_fit([{"a": 1.0, "b": 2, "c": 3, "d": 4}], [1])
    assert same(everything(clf), before)
    assert clf.n_features_in_ == 1


def interrupted(*_):
    raise KeyboardInterrupt


def test_a_chunk_that_fails_takes_its_columns_back(monkeypatch):
    for method in ("er", "slda"):
        X, y = stream(60)
        clf = open_model(method).partial_fit(X[:20], y[:20])
        before, table, p = everything(clf), clf._model.table, clf.predict_proba(X)
        with monkeypatch.context() as patch:
            patch.setattr(batches, "_check_finite", interrupted)  # after the last step of the chunk
            for chunk in (X[40:], X[:5]):  # with and without columns that are new
                with pytest.raises(KeyboardInterrupt):
                    clf.partial_fit(chunk, ["new"] * len(chunk))
        for chunk, labels in (([{"new": 1.0, "size": "text"}], [0]), ([{"new": 1.0}], [0.5]), ([{"new": 1.0}], [0, 1])):
            with pytest.raises(MnemonError):
                clf.partial_fit(chunk, labels)
        assert same(everything(clf), before)
        assert clf._model.table is table
        assert (clf.predict_proba(X) == p).all()
        assert clf.partial_fit(X[20:], y[20:]).n_features_in_ == 4


ANY = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=2), st.binary(max_size=2), st.complex_numbers(),
    st.dates(), st.just(()), st.just({}), st.just([1.0]), st.just(object()), st.just(np.datetime64("NaT")),
)  # fmt: skip
NAMES = st.one_of(st.sampled_from(["a", "c", "z", 0]), st.none(), st.floats(), st.booleans(), st.tuples())
FRAMES = st.dictionaries(st.sampled_from(["a", "c", "z"]), st.lists(ANY, min_size=2, max_size=2), max_size=3)
TABLES = st.one_of(
    st.lists(st.dictionaries(NAMES, ANY, max_size=3), max_size=3),
    FRAMES.map(lambda columns: pd.DataFrame(columns, dtype=object)),
    st.lists(st.lists(ANY, max_size=3), max_size=3),
    ANY,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(X=TABLES)
@pytest.mark.filterwarnings("ignore")
def test_a_first_chunk_is_learned_or_refused_whole(X):
    for features in ("open", "fixed"):
        clf = OnlineClassifier("slda", features=features)
        y = [i % 2 for i in range(len(X) if hasattr(X, "__len__") else 1)]
        if refused(lambda clf=clf, y=y: clf.partial_fit(X, y)):
            assert not hasattr(clf, "classes_")
            assert not hasattr(clf, "n_features_in_")
        else:
            assert clf.n_seen_ == len(y)
            assert np.isfinite(clf.predict_proba(X)).all()


def refused(act, *, must=False):
    """Whether one sentence refused it."""
    try:
        act()
    except MnemonError as error:
        said = str(error)
    else:
        assert not must
        return False
    assert said
    assert "\n" not in said
    assert len(said) < 700
    return True


# --- scikit-learn


def test_tags_say_what_is_taken():
    opened, fixed = open_model().__sklearn_tags__().input_tags, OnlineClassifier().__sklearn_tags__().input_tags
    assert (opened.allow_nan, opened.categorical, opened.three_d_array) == (True, True, False)
    assert (fixed.allow_nan, fixed.categorical, fixed.three_d_array) == (False, False, True)


def test_two_tables_in_json_are_the_same_table():
    growth = Table().learn(read([{"a": 1.5, "c": True}, {"c": 1}, {"c": "1", 3: None}], ()))
    assert Table.from_json(json.loads(json.dumps(growth.table.as_json()))) == growth.table
