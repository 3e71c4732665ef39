"""Drift: alarms, what is no drift, and models that follow."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from test_estimator import blobs, everything, same

import mnemon
from mnemon import MnemonError, OnlineClassifier
from mnemon.estimator import batches
from mnemon.estimator.drift import Detector

BEFORE = 1600  # samples before two labels are swapped, and after
SMALL = "mlp:width=32"


def gaussians(n, seed=0, classes=2, features=6, apart=4.0):
    """Classes around random places, of which the first two are `apart` deviations away from each other."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, features))
    centres *= apart / np.linalg.norm(centres[0] - centres[1])
    y = rng.integers(0, classes, n)
    return (centres[y] + rng.normal(size=(n, features))).astype(np.float32), y


def swapped(seed=0, classes=2):
    """A stream in which the first two labels are swapped halfway, and samples with the labels they have then."""
    x, y = gaussians(2 * BEFORE + 400, seed, classes)
    y[BEFORE:] = np.where(y[BEFORE:] < 2, 1 - y[BEFORE:], y[BEFORE:])
    names = np.array(["a", "b", "c"])[y]
    return x[:-400], names[:-400], x[-400:], names[-400:]


def learn(clf, x, y, chunk=100):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for start in range(0, len(x), chunk):
            clf.partial_fit(x[start : start + chunk], y[start : start + chunk])
    return clf


def alike(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def watch(x, y, chunk=500, seed=0):
    """What a detector alone finds: (position, class)."""
    made, found = Detector(x.shape[1:], seed), []
    x, y = torch.as_tensor(np.asarray(x, np.float32)), torch.as_tensor(y)
    for i in range(0, len(x), chunk):
        found += [(i + a.position, a.c) for a in made.observe(x[i : i + chunk], y[i : i + chunk], int(y.max()) + 1)]
    return found


# --- what is followed


@pytest.mark.parametrize("method", ["slda", "hybrid", "er"])
def test_after_a_swap_of_two_labels_auto_is_right_again_within_500_samples_of_each(method):
    x, y, x_test, y_test = swapped()
    clf = learn(OnlineClassifier(method, half_life="auto", memory_size=300), x[:BEFORE], y[:BEFORE])
    old = {"a": "b", "b": "a"}
    assert clf.score(x_test, [old[label] for label in y_test]) > 0.9
    assert clf.drift_ == []
    after = 1000
    assert max(np.unique(y[BEFORE : BEFORE + after], return_counts=True)[1]) < 540
    learn(clf, x[BEFORE : BEFORE + after], y[BEFORE : BEFORE + after])
    for label in ("a", "b"):
        assert clf.score(x_test[y_test == label], y_test[y_test == label]) > 0.9
    assert sorted(drift.classes for drift in clf.drift_) == [("a",), ("b",)]
    assert all(BEFORE < drift.when < BEFORE + 300 for drift in clf.drift_)


@pytest.mark.parametrize("method", ["slda", "hybrid"])
def test_a_number_follows_without_any_alarm_and_none_does_not_follow(method):
    x, y, x_test, y_test = swapped()
    given = {} if method == "slda" else {"backbone": "identity", "memory_size": 300}
    right = [learn(OnlineClassifier(method, half_life=h, **given), x, y).score(x_test, y_test) for h in (100, None)]
    assert right[0] > 0.9
    assert right[1] < 0.7


def test_rows_of_a_class_age_by_its_own_samples():
    """The samples are their own numbers: half of the rows are younger than the half-life, and the next half-life holds half of
    the rest. A class that is not shown keeps its rows."""
    n, half = 4000, 150
    clf = OnlineClassifier(backbone="identity", memory_size=400, half_life=half, batch_size=50)
    number = np.arange(n, dtype=np.float32)
    one = lambda values, c: np.stack([values, np.full(len(values), c, np.float32)], 1)  # noqa: E731
    learn(clf, one(number[:150], 9), ["still"] * 150)
    learn(clf, one(number, 1), ["shown"] * n)
    memory = clf._model.learner.memory
    rows, classes = memory.x[:400, 0].numpy(), memory.y[:400].numpy()
    age = n - rows[classes == 1]
    assert abs((age <= half).mean() - 0.5) < 0.1
    assert abs((age <= 2 * half).mean() - 0.75) < 0.1
    assert len(np.unique(rows[classes == 0])) == (classes == 0).sum() >= 10  # none a copy of a younger one


@pytest.mark.parametrize("method", ["slda", "hybrid", "der++"])
def test_without_drift_auto_is_the_same_model_to_the_bit(method):
    x, y = gaussians(600, classes=4)
    one, other = (
        learn(OnlineClassifier(method, half_life=half_life, memory_size=50), x, y) for half_life in (None, "auto")
    )
    assert other.drift_ == []
    assert same(everything(one), everything(other))


# --- the alarm


@pytest.mark.parametrize("half_life", [None, "auto", 500])
def test_each_drift_is_warned_of_once_and_kept(half_life, tmp_path):
    x, y, _, _ = swapped(classes=3)
    clf = OnlineClassifier("slda", half_life=half_life)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for start in range(0, len(x), 50):
            clf.partial_fit(x[start : start + 50], y[start : start + 50])
    said = [str(warning.message) for warning in found]
    assert len(said) == len(clf.drift_) == 2
    assert all(warning.filename == __file__ for warning in found)
    assert ("half_life='auto'" in said[0]) == (half_life is None)
    for drift, sentence in zip(clf.drift_, said, strict=True):
        assert f"{drift.classes[0]!r} (after {drift.samples:,} samples)" in sentence
        assert drift.samples == (y[: drift.when] == drift.classes[0]).sum()
        assert y[drift.when - 1] == drift.classes[0]
    clf.save(tmp_path / "model")
    assert OnlineClassifier.load(tmp_path / "model").drift_ == clf.drift_
    clf.rename({"a": "z"}).forget(label="b")
    assert [drift.classes for drift in clf.drift_] == [("z",)]
    clf.forget(label="z")
    assert clf.drift_ == []


def test_one_large_chunk_holds_the_same_drift_as_many_small_ones():
    x, y, _, _ = swapped()
    found = [learn(OnlineClassifier("slda", half_life="auto"), x, y, chunk).drift_ for chunk in (64, 130, len(x))]
    assert found[0] == found[1] == found[2] != []


def test_before_anything_was_learned_there_is_none():
    with pytest.raises(AttributeError, match="drift_"):
        _ = OnlineClassifier().drift_


def streams(seed):
    """Streams without drift."""
    rng = np.random.default_rng(seed)
    x, y = load_digits(return_X_y=True)
    p = rng.permutation(len(x))
    yield "digits, shuffled", x[p], y[p]
    by_class = p[np.argsort(y[p], kind="stable")]
    yield "digits, class after class", x[by_class], y[by_class]
    again = np.concatenate([by_class, p, by_class])
    yield "digits, classes that return among others", x[again], y[again]
    tail = rng.choice(10, 6000, p=2.0 ** -np.arange(1, 11) / (1 - 2.0**-10))
    centres, width = rng.normal(size=(10, 6)), np.exp(rng.normal(size=(10, 1)))
    yield "long-tailed, classes of different width", centres[tail] + width[tail] * rng.normal(size=(6000, 6)), tail
    yield "counts of rare events", rng.poisson(0.03 * (1 + centres[tail] ** 2)), tail
    yield "log-normal", np.exp(1.5 * rng.normal(size=(6000, 6))) + centres[tail], tail
    yield "without a variance", rng.standard_cauchy((6000, 6)) + centres[tail], tail
    yield "noise", rng.normal(size=(6000, 40)), tail
    yield "constants", np.ones((2000, 3)), tail[:2000]


@pytest.mark.parametrize("seed", range(4))
def test_streams_without_drift_give_no_alarm(seed):
    for name, x, y in streams(seed):
        assert watch(x, y, chunk=(50, 100, 700, 10_000)[seed]) == [], name


def test_a_change_of_one_feature_of_many_and_a_slow_one_are_noticed():
    x, y = gaussians(3000, features=6, classes=3)
    moved = x.copy()
    moved[1500:][y[1500:] == 2, 3] += 6
    assert {c for _, c in watch(moved, y)} == {2}
    slow = x + np.linspace(0, 8, len(x))[:, None] * (y == 1)[:, None]
    assert {c for _, c in watch(slow, y)} == {1}


def test_a_chunk_that_fails_was_not_watched(monkeypatch):
    x, y = blobs(300)
    clf = OnlineClassifier(backbone="identity").partial_fit(x, y)
    before = {name: tensor.clone() for name, tensor in clf._model.parts["drift"].state().items()}
    monkeypatch.setattr(batches, "_check_finite", lambda learner: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clf.partial_fit(x, y)
    assert alike(before, clf._model.parts["drift"].state())


# --- saved in the middle


@pytest.mark.parametrize("half_life", ["auto", 80])
@pytest.mark.parametrize("method", ["slda", "hybrid", "der++"])
def test_a_model_saved_while_it_follows_goes_on_bit_for_bit(method, half_life, tmp_path):
    x, y, _, _ = swapped()
    x, y = x[BEFORE - 700 : BEFORE + 600], y[BEFORE - 700 : BEFORE + 600]
    given = {} if method == "slda" else {"backbone": SMALL, "memory_size": 120, "batch_size": 20}
    clf = OnlineClassifier(method, half_life=half_life, **given)
    learn(clf, x[:920], y[:920], 20)
    if half_life == "auto":
        assert clf.drift_
        assert method == "slda" or clf._model.learner.stale.any()  # in the middle of it
    clf.save(tmp_path / "model")
    loaded = OnlineClassifier.load(tmp_path / "model")
    assert loaded.half_life == half_life
    for made in (clf, loaded):
        learn(made, x[920:], y[920:], 20)
    assert same(everything(clf), everything(loaded))
    assert alike(clf._model.parts["drift"].state(), loaded._model.parts["drift"].state())


def test_a_detector_that_was_tampered_with_is_refused():
    made = Detector((3,), 0)
    made.observe(torch.randn(300, 3), torch.arange(300) % 2, 2)
    Detector((3,), 0).restore(made.state(), 2)
    for name, bad in (
        ("events", torch.tensor([[5, 7, 5]])),
        ("now.n", torch.full((2, 2), 64.0, dtype=torch.float64)),
        ("before.s", torch.full((2, 2, 16), torch.nan, dtype=torch.float64)),
        ("samples", torch.zeros(3, dtype=torch.int64)),
        ("units.mean", torch.zeros(4, dtype=torch.float64)),
    ):
        with pytest.raises(ValueError, match="detector of drift"):
            Detector((3,), 0).restore(made.state() | {name: bad}, 2)


# --- what cannot be


@pytest.mark.parametrize("half_life", [0, -1, "car", float("nan"), float("inf"), True, [5]])
def test_what_is_no_half_life_is_refused(half_life):
    with pytest.raises(MnemonError, match="half_life is None, 'auto', or a number of samples"):
        OnlineClassifier(half_life=half_life).partial_fit(*blobs(10))


@pytest.mark.parametrize("method", ["fine-tune", "gss", "aser", "cope"])
def test_methods_whose_samples_cannot_age_say_so(method):
    with pytest.raises(MnemonError, match="keeps no samples that could age"):
        OnlineClassifier(method, half_life="auto").partial_fit(*blobs(10))
    assert method in mnemon.methods()


def test_what_has_aged_is_not_taken_back_sample_by_sample():
    x, y, _, _ = swapped(classes=3)
    clf = learn(OnlineClassifier("slda", half_life="auto"), x, y)
    before = everything(clf)
    with pytest.raises(MnemonError, match=r"'[ab]' cannot be taken back exactly: it has drifted"):
        clf.forget(x[y != "c"][:5], y[y != "c"][:5])
    assert same(everything(clf), before)
    clf.forget(x[y == "c"][:5], y[y == "c"][:5])  # a class that did not drift
    clf.forget(label="a")
    fading = learn(OnlineClassifier("slda", half_life=50), x, y)
    with pytest.raises(MnemonError, match="while older ones fade"):
        fading.forget(x[:5], y[:5])


def test_models_merge_with_what_counts_in_each_and_fading_ones_do_not():
    x, y, x_test, y_test = swapped()
    drifted = learn(OnlineClassifier("slda", half_life="auto"), x, y)
    new = learn(OnlineClassifier("slda", half_life="auto"), x[BEFORE:], y[BEFORE:])
    new.merge(drifted)
    assert new.score(x_test, y_test) > 0.9
    with pytest.raises(MnemonError, match="drifted"):
        new.forget(x[-5:], y[-5:])
    fading = learn(OnlineClassifier("slda", half_life=50), x, y)
    with pytest.raises(MnemonError, match="fade"):
        fading.merge(drifted)


# --- beside the other parts of a model


def test_a_column_that_comes_later_is_no_drift():
    rng = np.random.default_rng(0)

    def chunk(n, names):
        y = rng.integers(0, 3, n)
        x = rng.normal(size=(n, len(names))) + 3 * np.eye(3, len(names))[y]
        return [dict(zip(names, row, strict=True)) for row in x.tolist()], y

    clf = OnlineClassifier("slda", features="open", half_life="auto").partial_fit(*chunk(1500, "abc"))
    for _ in range(5):
        clf.partial_fit(*chunk(300, "abcz"))
    assert clf.drift_ == []


def test_a_warning_that_is_an_error_comes_after_all_was_learned():
    x, y = blobs(1200)
    clf = OnlineClassifier("slda").partial_fit(x, y)
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="drift"):
        clf.partial_fit(x + 20, y)
    assert clf.n_seen_ == 2400
    assert clf._model.learner.samples + len(clf._model.parts["exam"]) == 2400


@pytest.mark.parametrize("chunk", [50, 1000, 20_000])
def test_a_class_that_drifted_has_an_exam_of_what_it_is_now(chunk):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    x = (rng.normal(size=(20_000, 4)) + 3 * y[:, None]).astype(np.float32)
    x[10_000:, 0] += 6 * y[10_000:]
    clf = OnlineClassifier("slda", half_life="auto", exam=100)
    with warnings.catch_warnings(action="ignore"):
        for start in range(0, len(x), chunk):
            clf.partial_fit(x[start : start + chunk], y[start : start + chunk])
    c = clf.classes_.tolist().index(1)
    exam = clf._model.parts["exam"].rows[c]
    assert len(exam) == 100
    assert exam[:, 0].min() > 4
    assert abs(float(clf._model.learner.statistics.means[c, 0]) - 9) < 0.1


def test_a_half_life_of_numpys_types_is_one():
    x, y = blobs(400)
    held = [OnlineClassifier("er", backbone="identity", half_life=kind(5), memory_size=50, exam=0).partial_fit(x, y)
            for kind in (int, np.int64, np.float32)]  # fmt: skip
    assert all(torch.equal(each._model.learner.memory.x, held[0]._model.learner.memory.x) for each in held)
