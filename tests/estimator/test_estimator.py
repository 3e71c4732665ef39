"""OnlineClassifier: labels at any time, each sample once, whole chunks or nothing."""

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import mnemon
from mnemon import MnemonError, OnlineClassifier
from mnemon.estimator import model as model_module
from mnemon.estimator.online import Scaling
from mnemon.learning.learner import Learner
from mnemon.learning.objectives import OBJECTIVES
from processes import PATIENCE, wait_for


def blobs(n, classes=4, width=6, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, width)) * 3
    y = rng.integers(classes, size=n)
    return (centres[y] + rng.normal(size=(n, width))).astype(np.float32), y


def pictures(n, size=8, channels=None, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    shape = (n, size, size) if channels is None else (n, size, size, channels)
    return np.clip(rng.normal(60 * y.reshape(-1, *[1] * (len(shape) - 1)) + 40, 30, shape), 0, 255).astype(np.uint8), y


def everything(clf):
    """All that was learned, to compare."""
    model = clf._model
    kept = {f"part.{name}.{key}": t for name, part in model.parts.items() for key, t in part.state().items()}
    state = {name: tensor.clone() for name, tensor in (model.learner.state() | kept).items()}
    return state, model.learner.steps, model.learner.samples, clf.n_seen_, list(model.labels.labels), sorted(vars(clf))


def same(a, b):
    return a[0].keys() == b[0].keys() and all(torch.equal(a[0][k], b[0][k]) for k in a[0]) and a[1:] == b[1:]


# --- labels and columns


def test_new_labels_at_any_time_in_order_of_arrival():
    x, _ = blobs(60)
    clf = OnlineClassifier()
    clf.partial_fit(x[:20], ["b", "a"] * 10)
    assert clf.classes_.tolist() == ["b", "a"]
    clf.partial_fit(x[20:21], ["c"])
    before = clf.classes_.tolist()
    clf.partial_fit(x[21:60], ["a", "0", "c"] * 13)
    assert clf.classes_.tolist() == [*before, "0"] == ["b", "a", "c", "0"]
    assert clf.n_seen_ == 60
    p = clf.predict_proba(x)
    assert p.shape == (60, 4)
    assert np.allclose(p.sum(1), 1)
    assert (clf.predict(x) == clf.classes_[p.argmax(1)]).all()


def test_true_and_one_are_different_labels_and_types_may_mix():
    x = np.eye(4, dtype=np.float32).repeat(20, 0)
    y = [True, 1, "1", 0] * 20
    order = np.argsort(np.tile(np.arange(4), 20), kind="stable")
    clf = OnlineClassifier(backbone="identity").partial_fit(x, [y[i] for i in order])
    assert [(type(c), c) for c in clf.classes_] == [(bool, True), (int, 1), (str, "1"), (int, 0)]
    assert [(type(c), c) for c in clf.predict(np.eye(4))] == [(bool, True), (int, 1), (str, "1"), (int, 0)]
    assert clf.score(np.eye(4), [True, 1, "1", 0]) == 1.0
    assert clf.score(np.eye(4), [1, True, 1, False]) == 0.0


def test_a_new_label_that_is_a_known_one_in_another_spelling_is_said():
    x, y = blobs(40, 2)
    clf = OnlineClassifier("slda").partial_fit(x, y)
    with pytest.warns(UserWarning, match=r"a class '[01]' \(str\) beside the class [01] \(int\)"):
        clf.partial_fit(x, y.astype(str))
    with pytest.warns(UserWarning, match=r"a class 1 \(int\) beside the class '1' \(str\)"):
        OnlineClassifier("slda").partial_fit(x, [1] * 40, classes=["0", "1"])
    other = OnlineClassifier("slda").partial_fit(x, y.astype(str))
    with pytest.warns(UserWarning, match="rename joins them"):
        OnlineClassifier("slda").partial_fit(x, y).merge(other)
    for other in ("1.0", " 1", "1.0 "):
        with pytest.warns(UserWarning, match=f"a class '{other}' .str. beside the class 1 .int."):
            OnlineClassifier("slda").partial_fit(x, y).learn_many([dict(enumerate(x[0].tolist()))], [other])
    clf.partial_fit(x, y.astype(str))  # once is enough
    clf.partial_fit(x[:4], ["07", "-0", "+1", "v1"])
    clf.partial_fit(x[:1], ["v1.0"])  # no number
    clf.rename({"0": 0, "1": 1})
    clf.partial_fit(x[:1], [True])


@pytest.mark.parametrize(
    ("y", "kind"), [([3, 1, 3], "i"), (["x", "yy", "x"], "U"), ([True, False, True], "b"), (["a\0", "a", "a\0"], "O")]
)
def test_labels_come_back_as_they_went_in(y, kind):
    x = np.array([[9.0, 0], [0, 9], [9, 0]])
    clf = OnlineClassifier(backbone="identity").partial_fit(x, y)
    assert clf.classes_.dtype.kind == kind
    assert clf.predict(x).tolist() == y


def test_whole_floats_are_ints_and_other_floats_are_refused():
    x, _ = blobs(4)
    assert OnlineClassifier().partial_fit(x, np.array([1.0, 2.0, 1.0, 0.0])).classes_.tolist() == [1, 2, 0]
    for y, why in [
        ([0.5] * 4, "continuous"),
        ([np.nan] * 4, "NaN"),
        ([None] * 4, "a str, an int"),
        ([2**70] * 4, "64 bits"),
    ]:
        with pytest.raises(MnemonError, match=why):
            OnlineClassifier().partial_fit(x, y)


def test_labels_from_tensors_series_and_columns():
    x, y = blobs(30)
    want = OnlineClassifier().partial_fit(x, y).predict_proba(x)
    for other in (torch.from_numpy(y), pd.Series(y, index=range(100, 130)), y.tolist(), iter(y)):
        assert (OnlineClassifier().partial_fit(x, other).predict_proba(x) == want).all()
    names = pd.Series(y).map({0: "a", 1: "b", 2: "c", 3: "d"})
    for other in (names, names.astype("category"), names.astype("string")):
        clf = OnlineClassifier().partial_fit(x, other)
        assert sorted(clf.classes_) == ["a", "b", "c", "d"]
        assert (clf.predict_proba(x) == want).all()


def test_classes_registers_labels_ahead_which_have_no_probability_yet():
    x, y = blobs(40)
    clf = OnlineClassifier().partial_fit(x, y, classes=[7, 3, 2, 1, 0])
    assert clf.classes_.tolist() == [7, 3, 2, 1, 0]
    assert (clf.predict_proba(x)[:, 0] == 0).all()
    clf.partial_fit(x[:5], [7] * 5, classes=[9])
    assert clf.classes_.tolist() == [7, 3, 2, 1, 0, 9]
    assert (clf.predict_proba(x)[:, 0] > 0).all()


def test_fit_starts_afresh_with_sorted_classes():
    x, y = blobs(60)
    clf = OnlineClassifier().partial_fit(x, 9 - y)
    clf.fit(x[:, :4], np.array(["z", "a", "m"])[y % 3])
    assert clf.classes_.tolist() == ["a", "m", "z"]
    assert clf.n_seen_ == 60
    assert clf.n_features_in_ == 4
    again = OnlineClassifier().fit(x[:, :4], np.array(["z", "a", "m"])[y % 3])
    assert same(everything(clf), everything(again))
    assert OnlineClassifier().fit(x[:3], ["b", 1, True]).classes_.tolist() == [True, 1, "b"]


# --- learning


@pytest.mark.parametrize("chunk", [1, 3, 10, 37, 100])
def test_every_sample_is_learned_exactly_once_in_order(chunk):
    x, y = blobs(100)
    clf = OnlineClassifier(memory_size=200, exam=0)
    for i in range(0, 100, chunk):
        clf.partial_fit(x[i : i + chunk], y[i : i + chunk])
        assert clf.n_seen_ == min(i + chunk, 100)
    memory = clf._model.learner.memory  # large enough to keep all
    assert np.array_equal(memory.x[:100].numpy(), x)
    assert clf.classes_[memory.y[:100].numpy()].tolist() == y.tolist()
    assert (memory.y[100:200] == -1).all()
    per_call = -(-chunk // 10)
    last = 100 % chunk
    assert clf._model.learner.steps == 100 // chunk * per_call + -(-last // 10)
    assert clf.score(x, y) > 0.9


def test_chunks_of_whole_batches_are_one_stream():
    x, y = blobs(300)
    whole = OnlineClassifier().partial_fit(x, y)
    parts = OnlineClassifier()
    for i in range(0, 300, 20):
        parts.partial_fit(x[i : i + 20], y[i : i + 20])
        parts.predict(x[:5])  # looking changes nothing
    assert same(everything(whole), everything(parts))


def test_same_seed_same_bytes_and_torch_is_left_alone():
    x, y = blobs(50)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    a, b, c = (OnlineClassifier(seed=s).partial_fit(x, y) for s in (1, 1, 2))
    assert (torch.rand(2) == expected).all()
    assert same(everything(a), everything(b))
    assert not (a.predict_proba(x) == c.predict_proba(x)).all()


def choices():
    from mnemon.learning.build import choose
    from mnemon.learning.classifiers import CLASSIFIERS

    for method in mnemon.methods():
        yield method, None, None
    for method in ("er", "mir"):
        for loss in OBJECTIVES:
            for classifier in CLASSIFIERS:
                try:
                    choose(method, loss, [classifier])
                except MnemonError:
                    continue
                yield method, loss, classifier


@pytest.mark.parametrize(("method", "loss", "classifier"), list(choices()))
def test_any_method_loss_and_classifier_on_any_chunk_size(method, loss, classifier):
    x, y = blobs(90)
    body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())  # refuses a single sample by itself
    clf = OnlineClassifier(method, loss=loss, classifier=classifier, memory_size=60, backbone=body)
    for chunk in (x[:1], x[1:2], x[2:7], x[7:50], x[50:]):
        n = clf.n_seen_ if hasattr(clf, "n_seen_") else 0
        clf.partial_fit(chunk, y[n : n + len(chunk)])
    assert clf.n_seen_ == 90
    p = clf.predict_proba(x)
    assert np.isfinite(p).all()
    assert np.allclose(p.sum(1), 1)
    assert (clf.predict(x[:1]) == clf.classes_[p[0].argmax()]).all()


def test_ncm_gives_the_gaussian_posterior_and_the_others_a_softmax():
    x, y = blobs(80)
    clf = OnlineClassifier("hybrid", backbone="identity", exam=0).partial_fit(x, y)
    z = x / np.linalg.norm(x, axis=1, keepdims=True)
    mu = np.stack([z[y == c].mean(0) for c in clf.classes_])
    density = np.exp(-np.square(z[:, None] - mu).sum(2) / 2)
    assert np.allclose(clf.predict_proba(x), density / density.sum(1, keepdims=True), atol=1e-6)

    clf = OnlineClassifier(backbone="identity", classifier="ncm-unit", exam=0).partial_fit(x, y)
    mu /= np.linalg.norm(mu, axis=1, keepdims=True)
    density = np.exp(-np.square(z[:, None] - mu).sum(2) / 2)
    assert np.allclose(clf.predict_proba(x), density / density.sum(1, keepdims=True), atol=1e-6)

    clf = OnlineClassifier("er", exam=0).partial_fit(x, y)
    scores = clf._model.frozen().scores(torch.from_numpy(x)).double()
    assert np.allclose(clf.predict_proba(x), torch.softmax(scores, 1).numpy())


def test_the_class_means_are_computed_once_for_an_unchanged_model(monkeypatch):
    x, y = blobs(50)
    clf = OnlineClassifier().partial_fit(x, y)
    calls = []
    features = Learner.memory_features
    monkeypatch.setattr(Learner, "memory_features", lambda self: calls.append(1) or features(self))
    for _ in range(3):
        clf.predict(x)
        clf.predict_proba(x)
    assert len(calls) == 1
    clf.partial_fit(x[:1], y[:1])
    clf.predict(x)
    assert len(calls) == 2


def test_a_label_returns_after_100_000_samples():
    rng = np.random.default_rng(0)
    centres = np.eye(8, dtype=np.float32) * 5
    clf = OnlineClassifier(backbone="identity", batch_size=1000, memory_size=100)
    clf.partial_fit(centres[:1] + rng.normal(size=(20, 8)), ["rare"] * 20)
    y = rng.integers(1, 8, size=100_000)
    clf.partial_fit(centres[y] + rng.normal(size=(100_000, 8)).astype(np.float32), y)
    assert clf.classes_[0] == "rare"
    assert clf.n_seen_ == 100_020
    assert clf.predict(centres[:1])[0] == "rare"  # it kept its rows
    clf.partial_fit(centres[:1], ["rare"])
    assert clf.predict(centres[:1])[0] == "rare"
    assert len(clf.classes_) == 8


# --- what X may be


@pytest.mark.parametrize("channels", [None, 1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_images(channels, dtype):
    x, y = pictures(90, channels=channels)
    x = x if dtype == np.uint8 else (x / 255).astype(dtype)
    clf = OnlineClassifier().partial_fit(x, y)
    assert clf._model.inputs.shape == (channels or 1, 8, 8)
    assert clf.score(x, y) > 0.9
    tensors = OnlineClassifier().partial_fit(torch.from_numpy(x), torch.from_numpy(y))
    assert (tensors.predict_proba(torch.from_numpy(x)) == clf.predict_proba(x)).all()
    assert not hasattr(clf, "n_features_in_")


def test_images_that_must_not_be_written_to_are_learned_in_silence():
    """What np.asarray makes of a Pillow image, or of a file mapped for reading."""
    x, y = pictures(20)
    want = OnlineClassifier().partial_fit(x, y).predict_proba(x)
    x.flags.writeable = False
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # PyTorch says it once in a process
    try:
        assert (OnlineClassifier().partial_fit(x, y).predict_proba(x) == want).all()
    finally:
        torch.set_warn_always(always)


def test_a_network_is_a_resnet_for_larger_images_one_at_a_time_too():
    x, y = pictures(12, size=28)
    clf = OnlineClassifier("hybrid")
    for i in range(3):
        clf.partial_fit(x[i : i + 1], y[i : i + 1])
    clf.partial_fit(x[3:], y[3:])
    assert type(clf._model.learner.net.backbone).__name__ == "ReducedResNet18"
    assert clf.predict(x).shape == (12,)


def test_frames_ints_and_lists():
    x, y = blobs(60)
    x = np.round(x * 10)
    want = OnlineClassifier().partial_fit(x, y).predict_proba(x)
    frame = pd.DataFrame(x, columns=list("abcdef"))
    clf = OnlineClassifier().partial_fit(frame, y)
    assert clf.feature_names_in_.tolist() == list("abcdef")
    sparse = frame.astype(pd.SparseDtype(np.float32, 0))
    for other in (frame, frame.astype(int), frame.assign(a=frame.a.astype("int8")), sparse):
        assert (clf.predict_proba(other) == want).all()
    with pytest.raises(MnemonError, match="feature names"):
        clf.predict(frame[list("fedcba")])
    for other in (x.astype(int), x.tolist(), iter(x), torch.from_numpy(x), [torch.from_numpy(row) for row in x]):
        assert (OnlineClassifier().partial_fit(other, y).predict_proba(x) == want).all()


def test_other_kinds_of_samples_are_refused_with_a_sentence():
    x, y = pictures(20)
    clf = OnlineClassifier().partial_fit(x, y)
    for bad, why in [
        (x.reshape(20, 64), "64 features"),
        (x[:, :7], "7 × 8 pixels"),
        (x / 255, "float32"),
        (x[:, None, None], r"not an array of shape \(20, 1, 1, 8, 8\)"),
        (np.zeros((2, 3, 8, 8), np.uint8), "8 × 8 pixels and 3 channels"),
        (x[0, 0], "Reshape your data|1D"),
        ([[1, 2], [3]], "inhomogeneous"),
        (np.zeros((2, 8, 0)), r"not an array of shape \(2, 8, 0\)"),
        ("abc", "X must hold samples, and is one str"),
        ([torch.zeros(3), torch.zeros(4)], r"one shape, not \(3,\) and \(4,\)"),
        (torch.zeros(2, 8, 8).to_sparse(), "plain numbers; one of torch.float32, torch.sparse_coo"),
        (torch.zeros(2, 8, 8, device="meta"), "on meta cannot be read"),
        (torch.zeros(2, 64, dtype=torch.complex64).conj(), "plain numbers"),
    ]:
        with pytest.raises(MnemonError, match=why):
            clf.predict(bad)


def test_a_network_that_does_not_fit_into_memory_is_one_sentence():
    clf = OnlineClassifier("er", backbone=lambda: torch.nn.Linear(3, 10**14))  # 1 PiB
    with pytest.raises(
        MnemonError, match="the network for samples of 3 features as float32 does not fit into the memory"
    ):
        clf.partial_fit(np.zeros((2, 3), np.float32), [0, 1])
    assert not clf.__sklearn_is_fitted__()


def test_dates_are_refused_and_a_missing_one_is_no_number():
    """NumPy would take a missing date for −2⁶³, and one such row would ruin the scaling without a word."""
    day = pd.date_range("2024-01-01", periods=6)
    gap = day.where(np.arange(6) != 2)
    y, number = [0, 1] * 3, np.arange(6.0)
    cells = [[cell, 1.0] for cell in gap.to_numpy()]
    tables = [
        gap.to_numpy()[:, None],
        (gap - day[0]).to_numpy()[:, None],
        (gap - day[0]).to_numpy().reshape(6, 1, 1),
        np.array(cells, object),
        cells,
        [[cell] for cell in gap],
    ]
    frames = [
        pd.DataFrame({"when": gap}),
        pd.DataFrame({"when": gap - day[0]}),
        pd.DataFrame({"b": number, "when": gap}),
        pd.DataFrame({"b": number, "when": day.tz_localize("UTC")}),
        pd.DataFrame({"b": number, "when": pd.Categorical(gap)}),
        pd.DataFrame({"b": number, "when": pd.Series([cell for cell, _ in cells], dtype=object)}),
    ]
    clf = OnlineClassifier().partial_fit(number[:, None], y)
    before = everything(clf)
    for bad in tables + frames:
        for act in (OnlineClassifier().fit, clf.partial_fit, lambda bad, _: clf.predict(bad)):
            with pytest.raises(MnemonError, match=r"holds dates or times; turn them into numbers first, such as days"):
                act(bad, y)
    for bad in frames:
        for rows in (bad, bad.to_dict("records")):
            with pytest.raises(MnemonError, match=r"'when' (of X )?holds dates or times"):
                OnlineClassifier().learn_many(rows, y)
    for value in (np.timedelta64("NaT"), pd.NaT, day[0].to_pydatetime(), np.datetime64("2024-01-01")):
        with pytest.raises(MnemonError, match=r"the feature 'when' holds dates"):
            OnlineClassifier().learn_one({"b": 1.0, "when": value}, 0)
    assert same(everything(clf), before)


@pytest.mark.parametrize(
    "column", [pd.Categorical(["u", "v"] * 3), pd.period_range("2024-01", periods=6, freq="M"), list("uvuvuv")]
)
def test_a_column_that_is_no_number_is_one_sentence(column):
    frame, y = pd.DataFrame({"a": column, "b": np.arange(6.0)}), [0, 1] * 3
    clf = OnlineClassifier().fit(frame[["b", "b"]].set_axis(["a", "b"], axis=1), y)
    for act in (
        OnlineClassifier().fit,
        clf.partial_fit,
        lambda bad, _: clf.predict(bad),
        OnlineClassifier().learn_many,
    ):
        with pytest.raises(MnemonError, match=r"could not convert string to float: 'u'|a real number, not 'Period'"):
            act(frame, y)
    numbers = frame.assign(a=pd.Categorical([1, 2, 3] * 2))
    assert OnlineClassifier().fit(numbers, y).n_seen_ == 6


def test_weights_of_a_score():
    x, y = blobs(40)
    clf = OnlineClassifier().fit(x, y)
    wrong = np.where(np.arange(40) < 10, 9, y)  # the first ten are wrong for certain
    right = clf.predict(x) == wrong
    w = np.arange(40.0)
    for given in (w, w.tolist(), torch.from_numpy(w), pd.Series(w)):
        assert clf.score(x, wrong, sample_weight=given) == pytest.approx((right * w).sum() / w.sum())
    for given, why in [
        ([1, 2], r"one number a sample: 40, not an array of shape \(2,\)"),
        (3.0, r"one number a sample"),
        (w[:, None], "one number a sample"),
        (np.zeros(40), "not zeros alone"),
        (-w, "from 0 on"),
        (np.full(40, np.nan), "finite"),
        (["a"] * 40, "must hold numbers"),
    ]:
        with pytest.raises(MnemonError, match=f"^sample_weight .*{why}"):
            clf.score(x, y, sample_weight=given)


def test_a_sentence_never_holds_the_data():
    x, y = blobs(40, width=768)
    clf = OnlineClassifier().partial_fit(x, y)
    with pytest.raises(
        MnemonError, match=r"got 1D array.*\(768,\).*Reshape your data: one sample is X\[None\]"
    ) as said:
        clf.predict(x[0])
    assert len(str(said.value)) < 200
    assert clf.predict(x[0][None]).shape == (1,)
    text = x[:2].astype(object)
    text[1, 1] = "word " * 10_000
    for bad in (x[:2] * 1j, (x[:2] * 1j).astype(object), text, x[0, 0], torch.from_numpy(x[0]), [], x[:0], x[:, :0]):
        for act in (clf.predict, lambda bad: OnlineClassifier().fit(bad, y[:2])):
            with pytest.raises(MnemonError) as said:
                act(bad)
            assert 10 < len(str(said.value)) <= 500


# --- scaling


def test_running_moments_are_those_of_all_samples():
    offset = np.array([0, 1e6, 0.1])
    x = np.random.default_rng(0).normal(3, [[1, 50, 0]], (103, 3)) + offset
    scaling = Scaling(3, torch.device("cpu"))
    for part in np.split(x, [1, 2, 12, 50]):
        scaling.update(torch.from_numpy(part))
    assert np.allclose(scaling.mean, x.mean(0), rtol=1e-12)
    assert np.allclose((scaling.squares / 103).sqrt()[:2], x.std(0)[:2], rtol=1e-6)
    z = scaling(torch.from_numpy(x))
    assert z[:, :2].std(0, correction=0).tolist() == pytest.approx([1, 1], rel=1e-3)
    assert z[:, 2].abs().max() < 1e-6  # a constant stays one


def test_units_do_not_matter():
    x, y = blobs(300)
    test, y_test = blobs(200, seed=1)
    plain = OnlineClassifier().partial_fit(x, y).predict(test)
    units, offset = np.array([1e-6, 1, 1e6, 10, 1e-3, 3.6]), np.array([0, 0, 1e6, 100, 0, -5])
    scaled = OnlineClassifier().partial_fit(x * units + offset, y)
    assert (scaled.predict(test * units + offset) == plain).mean() > 0.98
    assert (plain == y_test).mean() > 0.95


def test_a_feature_that_float32_makes_constant_is_spoken_of():
    """Seconds since 1970: 1.7e9 + 0 … 30 is one value of float32, or two."""
    rng = np.random.default_rng(0)
    b = rng.integers(0, 31, 60)
    x, y = np.stack([rng.normal(size=60), 1.7e9 + b], 1), b > 15
    frame = pd.DataFrame(x, columns=["a", "when"])
    what = r"of X varies by less than float32 can hold .*subtract a start first"
    ids = np.column_stack([x[:, 0], 10**15 + np.arange(60)])
    for given, which in [
        (x, "feature 1"),
        (x.astype(np.int64), "feature 1"),
        (ids, "feature 1"),
        (frame, "the feature 'when'"),
    ]:
        clf = OnlineClassifier()
        with pytest.warns(UserWarning, match=f"^{which} {what}") as said:
            clf.partial_fit(given, y)
        assert said[0].filename == __file__  # the user's line
        assert clf.n_seen_ == 60
        clf.predict(given)  # said once, when it is learned
    with pytest.warns(UserWarning, match=f"^the feature 'when' {what}") as said:
        OnlineClassifier().learn_many(frame, y)
    assert said[0].filename == __file__
    clf = OnlineClassifier()
    with pytest.raises(UserWarning, match="float32"):  # where warnings are errors: before anything was learned
        clf.partial_fit(x, y)
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize(
    "column",
    [
        1.7e9 + 3600 * np.arange(60.0),  # hours: float32 tells them apart
        np.full(60, 1.7e9 + 17),
        np.where(np.arange(60) % 2, 0.1 + 0.2, 0.3),  # a constant, computed in two ways
        np.arange(60) % 2,
        np.arange(60.0) * 1e-30,
        np.arange(60.0) * 1e30,
        np.where(np.arange(60) % 2, 1, -1) * float(np.finfo(np.float32).max),
        np.array([-9999.0, *np.arange(59.0)]),
    ],
)
def test_nothing_is_said_of_other_features(column):
    x, y = blobs(60)
    assert OnlineClassifier().partial_fit(np.column_stack([x, column]), y).n_seen_ == 60


# --- networks


def test_identity_needs_no_gradient_and_no_parameters():
    x, y = blobs(200)
    clf = OnlineClassifier(backbone="identity").partial_fit(x, y)
    assert clf._model.learner.parameters == ()
    assert clf.score(x, y) > 0.95
    assert OnlineClassifier(backbone="identity").fit(*pictures(30)).n_seen_ == 30


def test_a_network_that_is_not_trained_keeps_its_statistics():
    x, y = blobs(60)
    body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)).requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in body.state_dict().items()}
    clf = OnlineClassifier(backbone=body).partial_fit(x, y)
    now = clf._model.learner.net.backbone.state_dict()
    assert all(torch.equal(now[name], tensor) for name, tensor in before.items())
    assert clf.score(x, y) > 0.7


def test_a_network_of_ones_own_gets_floats_as_they_are():
    x, y = blobs(20)
    seen = []

    class Spy(nn.Module):
        def forward(self, x):
            seen.append(x.clone())
            return x

    OnlineClassifier(backbone=Spy()).partial_fit(x[:10] * 1000, y[:10])
    assert any(np.array_equal(s.numpy(), x[:10] * 1000) for s in seen)


# --- a rejected chunk changes nothing


def raising(rows):
    yield from rows
    raise OSError("the camera is gone")


@pytest.mark.parametrize("first", [True, False])
def test_a_rejected_chunk_changes_nothing(first):
    x, y = blobs(40)
    clf = OnlineClassifier(memory_size=30)
    if not first:
        clf.partial_fit(x, y)
    before = None if first else everything(clf)
    nan, far = x.copy(), x.astype(np.float64)
    nan[17, 2], far[3, 3] = np.nan, 1e300
    bad = [
        (nan, y, {}, MnemonError, "not finite.*in sample 17"),
        (far, y, {}, MnemonError, "in sample 3"),
        (x[:0], y[:0], {}, MnemonError, "0 sample"),
        (x, y[:-1], {}, MnemonError, "40 samples and y 39 labels"),
        (x, [*y[:-1], 0.5], {}, MnemonError, "continuous"),
        (x, y[:, None].repeat(2, 1), {}, MnemonError, "one label a sample"),
        (x, [[0, 1], [2]], {}, MnemonError, "one label a sample"),
        (x, torch.zeros(40, device="meta"), {}, MnemonError, "cannot be read"),
        (x, y, {"sample_weight": np.ones(40)}, MnemonError, "sample_weight is not supported"),
        (x, y, {"classes": [None]}, MnemonError, "a label is"),
        (raising(x), y, {}, OSError, "camera"),
        (x, raising(y), {}, OSError, "camera"),
        (x, None, {}, MnemonError, "y is None"),
    ]
    if not first:
        bad.append((x[:, :5], y, {}, MnemonError, "X has 5 features, but OnlineClassifier is expecting 6"))
    for a, b, named, kind, why in bad:
        with pytest.raises(kind, match=why):
            clf.partial_fit(a, b, **named)
        if first:
            assert not hasattr(clf, "classes_")
            assert not hasattr(clf, "n_features_in_")
        else:
            assert same(everything(clf), before)


def test_a_chunk_that_diverges_or_is_interrupted_midway_changes_nothing(monkeypatch):
    x, y = blobs(100)
    clf = OnlineClassifier(lr=1e4, memory_size=50, method="er").partial_fit(x[:1], y[:1])
    before, p = everything(clf), clf.predict_proba(x)
    with pytest.raises(MnemonError, match="diverged"):
        clf.partial_fit(np.tile(x, (40, 1)) * 3, np.tile(y, 40) + np.arange(4000) // 100)  # new classes, too
    assert same(everything(clf), before)
    assert (clf.predict_proba(x) == p).all()

    clf = OnlineClassifier(memory_size=50).partial_fit(x, y)
    want = OnlineClassifier(memory_size=50).partial_fit(x, y)
    step, steps = Learner.step, []

    def interrupted(self, *args):
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(Learner, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.partial_fit(x, y + np.arange(100))
    assert same(everything(clf), everything(want))
    monkeypatch.undo()
    assert same(everything(clf.partial_fit(x, y)), everything(want.partial_fit(x, y)))  # and it goes on


def test_a_stream_that_breaks_keeps_what_was_learned_before():
    x, y = blobs(50)
    clf, want = OnlineClassifier(), OnlineClassifier().partial_fit(x[:20], y[:20])

    def stream():
        yield x[:10], y[:10]
        yield x[10:20], y[10:20]
        raise OSError("the camera is gone")

    def follow():
        for chunk in stream():
            clf.partial_fit(*chunk)

    with pytest.raises(OSError, match="camera"):
        follow()
    assert same(everything(clf), everything(want))


def test_a_million_labels_are_refused_at_once_and_many_thousand_are_learned(monkeypatch):
    clf = OnlineClassifier(backbone="identity", batch_size=1000, memory_size=2000)
    x = np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32)
    with pytest.warns(UserWarning, match="3,000 classes and 2,000 rows"):
        clf.partial_fit(x[:3000], np.arange(3000))
    before = everything(clf)
    with pytest.raises(MnemonError, match="1,003,000 different labels"):
        clf.partial_fit(np.zeros((1_000_000, 4), np.float32), [f"id{i}" for i in range(1_000_000)])
    with pytest.raises(MnemonError, match="different labels"):
        clf.partial_fit(x[:1], [0], classes=range(70_000))
    assert same(everything(clf), before)
    clf.partial_fit(x[3000:], np.arange(3000, 20_000))
    assert len(clf.classes_) == 20_000
    monkeypatch.setattr(model_module, "MAX_CLASSES", 20_000)
    clf.partial_fit(x[:5], np.arange(5))  # full, and the known ones go on
    with pytest.raises(MnemonError, match="20,001 different labels"):
        clf.partial_fit(x[:1], [-1])


def test_bad_parameters_are_refused_with_a_sentence():
    x, y = blobs(10)
    for params, why in [
        ({"method": "hybird"}, "did you mean 'hybrid'"),
        ({"loss": "c"}, "unknown loss"),
        ({"classifier": "proxy", "method": "er"}, "proxies"),
        ({"backbone": "vgg"}, "unknown backbone"),
        ({"backbone": "resnet18"}, "needs images"),
        ({"memory_size": 0}, "at least 1"),
        ({"memory_size": 10**12}, "at most"),
        ({"batch_size": 2.5}, "of type int"),
        ({"lr": -1}, "above 0"),
        ({"gamma": 1.0, "method": "er"}, "no option 'gamma'"),
        ({"device": "tpu"}, "no device"),
        *[({"device": device}, "a device is") for device in (0, None, ["cpu"])],
        *[({"method": method}, "method must be a name") for method in (3, ["er"], nn.Linear)],
        *[({"backbone": backbone}, "a backbone is a name, an nn.Module") for backbone in (None, 3)],
        ({"backbone": lambda: 3}, "must return an nn.Module"),
        ({"backbone": nn.Linear}, "called without arguments, and Linear needs some: give an nn.Module"),
        ({"backbone": lambda inputs: nn.Linear(inputs, 3)}, "called without arguments"),
        ({"backbone": nn.Linear(3, 2)}, r"cannot take samples of shape \(6,\)"),
        ({"classifier": ["ncm"]}, "classifier must be a name"),
        ({"loss": 3}, "loss must be a name"),
        ({"average": 1.0}, "average must be below 1"),
        ({"average": "often"}, "average must be of type float or 'auto', not 'often'"),
        ({"average": 0.9, "method": "slda"}, "slda trains no weights that could be averaged"),
        ({"lr": 1e308}, "lr must be at most"),
        ({"gamma": 10**400}, "out of range"),
        ({"method": "fine-tune", "memory_size": [1]}, "of type int"),
        ({"seed": -1}, "seed"),
        *[({"seed": seed, "backbone": "identity"}, "a seed is an integer") for seed in (True, 1.5, None, "a", [1])],
    ]:
        with pytest.raises(MnemonError, match=why):
            OnlineClassifier(**params).partial_fit(x, y)


def test_an_error_inside_a_function_that_makes_the_network_stays_its_own():
    x, y = blobs(10)

    def body():
        return nn.Linear(6)

    with pytest.raises(TypeError, match="out_features") as said:
        OnlineClassifier(backbone=body).partial_fit(x, y)
    assert not isinstance(said.value, MnemonError)
    assert OnlineClassifier(backbone=lambda width=6: nn.Linear(width, 3)).partial_fit(x, y).n_seen_ == 10


def test_a_device_of_torch_is_taken_and_kept(tmp_path):
    x, y = blobs(10)
    clf = OnlineClassifier(device=torch.device("cpu")).partial_fit(x, y)
    clf.set_params(device=torch.device("cpu")).partial_fit(x, y).save(tmp_path)  # the same one, so nothing changed
    assert OnlineClassifier.load(tmp_path).device == "cpu"
    twin = OnlineClassifier.load(tmp_path, device=torch.device("cpu"))
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()


def test_nothing_learned_nothing_said():
    with pytest.raises(NotFittedError, match="learned nothing yet"):
        OnlineClassifier().predict([[1.0]])
    with pytest.raises(MnemonError, match="learned nothing yet"):
        OnlineClassifier().predict_proba([[1.0]])
    assert not hasattr(OnlineClassifier(), "classes_")


# --- threads


def test_eight_threads_predict_while_one_learns():
    x, y = blobs(400)
    clf, test = OnlineClassifier(memory_size=50).partial_fit(x[:20], y[:20] % 2), x[:16]
    twin = OnlineClassifier(memory_size=50).partial_fit(x[:20], y[:20] % 2)
    existed = {twin.predict_proba(test).tobytes()}
    for i in range(20, 400, 19):
        twin.partial_fit(x[i : i + 19], y[i : i + 19])
        existed.add(twin.predict_proba(test).tobytes())
    done, found, errors = threading.Event(), [], []

    def predict():
        try:
            while not done.is_set():
                p = clf.predict_proba(test)
                assert set(clf.predict(test)) <= set(clf.classes_)
                found.append(p.tobytes())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=predict) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for i in range(20, 400, 19):
            seen = len(found)
            clf.partial_fit(x[i : i + 19], y[i : i + 19])
            wait_for(lambda seen=seen: len(found) > seen or errors)  # however late they get their turn
    finally:
        done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert set(found) <= existed
    assert same(everything(clf), everything(twin))


@pytest.mark.parametrize("rows", [False, True], ids=["arrays", "dicts"])
def test_threads_that_begin_at_once_lose_nothing(rows):
    x, y = blobs(200)
    clf, start, errors = OnlineClassifier(), threading.Barrier(4), []

    def learn(part):
        try:
            start.wait(PATIENCE)
            if rows:
                names = "abcdef" if part % 2 else "fedcba"  # each finds the features of the first
                clf.learn_many([dict(zip(names, row, strict=True)) for row in x[part::4]], y[part::4])
            else:
                clf.partial_fit(x[part::4], y[part::4])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=learn, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert clf.n_seen_ == 200
    assert pickle.loads(pickle.dumps(clf)).n_seen_ == 200
    assert copy.deepcopy(clf).n_seen_ == 200


def test_prediction_does_not_wait_for_a_long_chunk(monkeypatch):
    x, y = blobs(100)
    clf = OnlineClassifier().partial_fit(x[:50], y[:50])
    before = clf.predict_proba(x)
    inside, go_on = threading.Event(), threading.Event()
    step = Learner.step

    def slow(self, *args):
        loss = step(self, *args)
        inside.set()
        assert go_on.wait(PATIENCE)
        return loss

    monkeypatch.setattr(Learner, "step", slow)
    thread = threading.Thread(target=clf.partial_fit, args=(x[50:], y[50:] + 10))
    thread.start()
    assert inside.wait(PATIENCE)
    assert (clf.predict_proba(x) == before).all()
    assert len(clf.classes_) == 4
    assert clf.n_seen_ == 50
    go_on.set()
    thread.join()
    assert clf.n_seen_ == 100
    assert len(clf.classes_) == 8


@pytest.mark.parametrize(
    ("params", "count"),
    [
        ({}, 1),
        ({"method": "hybrid", "backbone": "identity"}, 1),
        ({"batch_size": 100}, 2),
        ({"backbone": nn.Linear(6, 4)}, 2),
    ],
    ids=["mlp", "identity", "large steps", "a network of one's own"],
)
def test_small_steps_take_one_thread_and_other_threads_keep_theirs(params, count, monkeypatch):
    """`torch.set_num_threads` would reach every thread that meets PyTorch for the first time meanwhile, and stay."""
    x, y = blobs(20)
    clf, inside, beside = OnlineClassifier(**params), [], []
    step = Learner.step

    def spied(self, *args):
        inside.append(torch.get_num_threads())
        other = threading.Thread(target=lambda: beside.append(torch.get_num_threads()))
        other.start()
        other.join()
        return step(self, *args)

    monkeypatch.setattr(Learner, "step", spied)
    torch.set_num_threads(2)
    try:
        clf.partial_fit(x, y)
        assert torch.get_num_threads() == 2
        monkeypatch.setattr(Learner, "check", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            clf.partial_fit(x, y)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert set(inside) == {count}
    assert set(beside) == {2}


# --- another scale


@pytest.mark.parametrize("method", ["hybrid", "slda"])
def test_a_sudden_change_of_scale_is_learned_with_one_warning(method, recwarn):
    x, y = blobs(90)
    x = (x - x.min()) / (x.max() - x.min())
    x[:, 0] = 1.0  # a constant
    clf = OnlineClassifier(method).partial_fit(x[:30], y[:30]).partial_fit(x[30:60] + 2, y[30:60])
    clf.partial_fit(x[60:] * np.array([1, 255, 255, 1, 1, 1], np.float32), y[60:])  # on few features it may be anything
    assert not recwarn
    clf = OnlineClassifier(method).partial_fit(x[:60], y[:60])
    with pytest.warns(UserWarning, match="over 30 standard deviations away") as found:
        clf.partial_fit(x[60:] * 255, y[60:])
    assert found[0].filename == __file__
    clf.partial_fit(x[60:] * 255_000, y[60:])  # said once
    assert clf.n_seen_ == 120
    named = OnlineClassifier(method)
    named.learn_many([dict(enumerate(row.tolist())) for row in x], y)
    with pytest.warns(UserWarning, match="scaled in another way") as found:
        named.learn_one(dict(enumerate((x[0] * 255).tolist())), 0)
    assert found[0].filename == __file__
    alone = OnlineClassifier(method).partial_fit(x[y == 0], y[y == 0])
    alone.partial_fit(x[y == 1] + 99, y[y == 1])  # a class that is far from the first one


# --- scikit-learn


@pytest.mark.parametrize("given", [{}, {"method": "er"}, {"method": "slda"}, {"classifier": "proxy"}], ids=str)
def test_decisions_logarithms_and_probabilities_are_of_one_kind(given):
    x, y = blobs(80)
    clf = OnlineClassifier(**given).partial_fit(x, y, classes=["never", *range(4)])
    decided, p, logs = clf.decision_function(x), clf.predict_proba(x), clf.predict_log_proba(x)
    assert decided.shape == p.shape == logs.shape == (80, 5)
    assert (clf.classes_[decided.argmax(1)] == clf.predict(x)).all()
    assert (decided[:, 0] == -np.inf).all()
    assert (logs[:, 0] == -np.inf).all()
    assert np.allclose(torch.softmax(torch.from_numpy(decided), 1).numpy(), p)
    assert np.allclose(np.exp(logs), p)
    far = clf.predict_log_proba(x * 1000)  # where a probability is 0, its logarithm is still a number
    assert np.isfinite(far[:, 1:]).all()


def test_two_classes_have_one_decision_and_one_class_has_none():
    x, y = blobs(60, classes=2)
    y = np.array(["no", "yes"])[y]
    for method in ("hybrid", "slda"):
        clf = OnlineClassifier(method).fit(x, y)
        decided = clf.decision_function(x)
        assert decided.shape == (60,)
        assert (np.where(decided > 0, "yes", "no") == clf.predict(x)).all()
        assert np.allclose(1 / (1 + np.exp(-decided)), clf.predict_proba(x)[:, 1])
        assert cross_val_score(clf, x, y, scoring="roc_auc").mean() > 0.99
        alone = OnlineClassifier(method).partial_fit(x[:3], ["no"] * 3)
        assert alone.decision_function(x).shape == (60, 1)


@pytest.mark.parametrize("given", [{"method": "slda"}, {"method": "er", "backbone": "identity"}], ids=str)
def test_what_transform_gives_is_not_what_was_given(given):
    x, y = blobs(60)
    clf = OnlineClassifier(**given).fit(x, y)
    before, found = x.copy(), clf.transform(x)
    found *= 2
    assert (x == before).all()


def test_transform_gives_what_the_classifier_reads():
    x, y = blobs(60)
    frame = pd.DataFrame(x, columns=list("abcdef"))
    clf = OnlineClassifier("slda").fit(frame, y)
    assert (clf.transform(frame) == x).all()
    assert clf.feature_names_in_.tolist() == list("abcdef")
    deep = OnlineClassifier(backbone="mlp:width=7", classifier="ncm-raw", exam=0).fit(x, y)
    f = deep.transform(x)
    assert f.shape == (60, len(deep.get_feature_names_out()))
    assert f.dtype == np.float32
    _, kept = deep._model.frozen()._learner.memory_features()  # here all samples
    means = np.stack([f[y == c].mean(0) for c in range(4)])
    assert len(kept) == 60
    assert (deep.predict(x) == ((f[:, None] - means) ** 2).sum(2).argmin(1)).all()
    named = deep.set_output(transform="pandas").transform(frame.to_numpy())
    assert named.columns[0] == "onlineclassifier0"
    images = OnlineClassifier("slda", backbone="patches:filters=6:images=20:side=4")
    shown, labels = pictures(30)
    assert images.partial_fit(shown[:5], labels[:5]).transform(shown).shape == (30, 64)  # pixels, while images wait
    assert images.partial_fit(shown, labels).transform(shown).shape == (30, len(images.get_feature_names_out()))
    for ask in ("transform", "decision_function", "predict_log_proba"):
        with pytest.raises(NotFittedError, match="learned nothing yet"):
            getattr(OnlineClassifier(), ask)(x)


def test_pipelines_clones_searches_and_scorers():
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    x, y = x[order], np.array(["setosa", "versicolor", "virginica"])[y[order]]
    pipe = make_pipeline(StandardScaler(), OnlineClassifier())
    assert cross_val_score(pipe, x, y).mean() > 0.85
    for scoring, least in (("neg_log_loss", -1.1), ("roc_auc_ovr", 0.95)):
        assert cross_val_score(OnlineClassifier(), x, y, scoring=scoring).mean() > least
    search = GridSearchCV(OnlineClassifier(), {"lr": [0.01, 0.1], "memory_size": [20, 100]}, cv=2).fit(x, y)
    assert search.best_params_["lr"] in (0.01, 0.1)
    body = nn.Linear(4, 8)
    twin = clone(OnlineClassifier("er", backbone=body, seed=4).partial_fit(x, y))
    assert not hasattr(twin, "classes_")
    assert twin.get_params()["seed"] == 4
    assert torch.equal(twin.backbone.weight, body.weight)


def test_scorers_that_assume_sorted_columns_are_right_after_fit():
    from sklearn.metrics import get_scorer, log_loss

    x, y = blobs(100)
    y = np.array(["d", "b", "a", "c"])[y]
    clf = OnlineClassifier().fit(x, y)
    p = clf.predict_proba(x)
    mine = -np.log(p[np.arange(100), [clf.classes_.tolist().index(label) for label in y]]).mean()
    assert get_scorer("neg_log_loss")(clf, x, y) == pytest.approx(-mine)
    assert log_loss(y, p) == pytest.approx(mine)
    assert get_scorer("roc_auc_ovr")(clf, x, y) > 0.99


def test_parameters_changed_midway_wait_for_the_next_fit():
    x, y = blobs(40)
    clf = OnlineClassifier().partial_fit(x, y).set_params(lr=0.5)
    with pytest.raises(MnemonError, match="lr changed after learning began"):
        clf.partial_fit(x, y)
    assert clf.fit(x, y).partial_fit(x, y)._model.choice.method.lr == 0.5


@pytest.mark.parametrize("method", ["hybrid", "er", "gmed-mir"])
def test_pickle_goes_on_as_if_nothing_had_happened(method):
    x, y = blobs(60)
    clf = OnlineClassifier(method, memory_size=30).partial_fit(x[:33], y[:33])
    twin = pickle.loads(pickle.dumps(clf))
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()
    clf.partial_fit(x[33:], y[33:])
    twin.partial_fit(x[33:], y[33:])
    assert same(everything(clf), everything(twin))


def test_without_tuning_on_digits_and_iris():
    """In the order the tables come in, new classes included; a prior over 10 or 3 classes is far below."""
    for load, least in ((load_digits, 0.93), (load_iris, 0.85)):
        x, y = load(return_X_y=True)
        assert cross_val_score(OnlineClassifier(), x, y, cv=3).mean() > least - 0.1
        order = np.random.default_rng(0).permutation(len(x))
        assert cross_val_score(OnlineClassifier(), x[order], y[order], cv=3).mean() > least


@pytest.mark.slow
def test_mnist_two_classes_at_a_time():
    """The stream of docs/classifier-figures.md, as vectors: 60,000 samples once, memory 1000, 92.2 % there."""
    data = mnemon.data.load("mnist")
    x, y = data.x_train.flatten(1).numpy(), data.y_train.numpy()
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y // 2 == pair)) for pair in range(5)])
    clf = OnlineClassifier()
    for part in np.array_split(rows, 60):
        clf.partial_fit(x[part], y[part])
    assert clf.n_seen_ == 60_000
    assert clf.score(data.x_test.flatten(1), data.y_test) > 0.91


def test_the_package_stays_light_until_the_class_is_used():
    code = (
        "import sys, mnemon; assert not {'torch', 'sklearn', 'pandas', 'river'} & set(sys.modules)\n"
        "mnemon.OnlineClassifier; assert 'river' not in sys.modules; assert 'OnlineClassifier' in dir(mnemon)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
