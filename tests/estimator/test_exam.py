"""The exam: which samples are held out of learning, and that none is lost by it."""

import re

import numpy as np
import pytest
import torch
from test_estimator import blobs, everything, pictures, same
from test_taking_back import apart, lives_on, memory

from mnemon import MnemonError, OnlineClassifier
from mnemon.estimator.exam import Exam
from mnemon.learning.learner import Inputs

SMALL = "patches:filters=6:images=20:side=4"


def numbered(n, classes=2):
    """Samples that are their own numbers, the largest first, so that each could be held out."""
    y = np.arange(n) % classes
    return np.arange(n, 0, -1, dtype=np.float32)[:, None] + np.zeros((1, 3), np.float32), y


def held(clf):
    """{label: first value of its samples in the exam, the oldest first}"""
    rows, labels = clf._model.parts["exam"].rows, clf._model.labels.labels
    return {labels[c]: rows[c][:, 0].tolist() for c in sorted(rows)}


def test_every_tenth_sample_of_a_class_is_held_out_and_the_newest_are_kept():
    x, y = numbered(100)
    clf = OnlineClassifier(backbone="identity", memory_size=200, exam=3).partial_fit(x, y)
    value = {c: x[y == c, 0] for c in (0, 1)}
    # Of the tenth, …, fiftieth sample of a class the last three are held out; the other two were learned late.
    assert held(clf) == {c: value[c][[29, 39, 49]].tolist() for c in (0, 1)}
    learned = memory(clf)
    for c in (0, 1):
        seen = [np.frombuffer(row, np.float32)[0] for row in learned[c]]
        assert sorted(seen) == sorted(set(value[c].tolist()) - set(held(clf)[c]))  # each once, none lost
        where = seen.index(value[c][9])
        assert seen[where - 1] == value[c][38]  # in the place of the fortieth, which took its place in the exam
    assert clf.n_seen_ == 100
    assert int(clf._model.learner.counts.sum()) == 94


def test_a_class_with_fewer_than_ten_samples_loses_none():
    x, y = numbered(18)
    clf = OnlineClassifier("slda").partial_fit(x, y)
    assert held(clf) == {}
    assert int(clf._model.learner.counts.sum()) == clf.n_seen_ == 18


@pytest.mark.parametrize("method", ["hybrid", "slda", "er"])
@pytest.mark.parametrize("chunk", [10, 70])
def test_chunks_and_saving_in_the_middle_do_not_matter(method, chunk, tmp_path):
    x, y = blobs(700, classes=3)
    whole, parts = (OnlineClassifier(method, exam=5) for _ in range(2))
    whole.partial_fit(x, y)
    for start in range(0, 700, chunk):
        parts.partial_fit(x[start : start + chunk], y[start : start + chunk])
        if start == 350:
            parts.save(tmp_path)
            twin = OnlineClassifier.load(tmp_path)
            assert same(everything(twin), everything(parts))
            assert (twin.predict_proba(x) == parts.predict_proba(x)).all()
            assert (twin.novelty(x) == parts.novelty(x)).all()
            parts = twin
    mine, other = (each._model.parts["exam"].state() for each in (whole, parts))
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    assert len(mine["y"]) == 15
    if method == "slda":  # sums are rounded by chunks
        assert np.allclose(whole.predict_proba(x), parts.predict_proba(x), atol=1e-4)
    else:
        assert same(everything(whole)[:-1], everything(parts)[:-1])
        assert (whole.predict_proba(x) == parts.predict_proba(x)).all()


def test_one_sample_at_a_time_is_the_same_exam():
    x, y = blobs(120)
    names = [f"f{i}" for i in range(6)]
    whole, ones = (OnlineClassifier("slda", exam=2) for _ in range(2))
    whole.partial_fit(x, y)
    for row, label in zip(x, y.tolist(), strict=True):
        ones.learn_one(dict(zip(names, row.tolist(), strict=True)), label)
    assert held(ones) == held(whole)
    assert ones.n_seen_ == 120


def test_a_chunk_that_fails_leaves_the_exam_as_it_was(monkeypatch):
    x, y = blobs(300)
    clf = OnlineClassifier(exam=5).partial_fit(x[:150], y[:150])
    before = everything(clf)

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mnemon.estimator.batches._check_finite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            clf.partial_fit(x[150:], y[150:])
    assert same(everything(clf), before)
    other = OnlineClassifier(exam=5).partial_fit(x[:150], y[:150]).partial_fit(x[150:], y[150:])
    assert same(everything(clf.partial_fit(x[150:], y[150:])), everything(other))


@pytest.mark.filterwarnings("ignore:on more than half of the features")
def test_a_sample_that_learning_refuses_does_not_hide_in_the_exam():
    """It would leave the exam later, and make chunks fail that have nothing wrong."""
    x, y = blobs(400, classes=1)
    clf = OnlineClassifier("slda", exam=2).partial_fit(x[:9], y[:9])
    with pytest.raises(MnemonError, match="too large for its variance"):
        clf.partial_fit(np.full((1, 6), 1e25), y[:1])  # the tenth of its class
    assert clf.partial_fit(x[9:], y[9:]).n_seen_ == 400


def test_without_an_exam_all_is_as_it_was():
    x, y = blobs(300)
    clf = OnlineClassifier("hybrid", exam=0).partial_fit(x, y)
    assert "exam" not in clf._model.parts
    assert int(clf._model.learner.counts.sum()) == 300
    scores = clf._model.frozen().scores(torch.from_numpy(x))
    assert (clf.predict_proba(x) == torch.softmax((scores / 2).double(), 1).numpy()).all()
    assert np.isfinite(clf.novelty(x)).all()


@pytest.mark.parametrize("given", [-1, 2.0, True, None, "20"])
def test_an_exam_that_is_no_number_of_samples(given):
    x, y = blobs(30)
    with pytest.raises(MnemonError, match=re.escape(f"0 or more, not {given!r}.")):
        OnlineClassifier(exam=given).fit(x, y)


# --- taking back


@pytest.mark.parametrize("method", ["slda", "hybrid"])
def test_samples_are_forgotten_wherever_they_are(method, tmp_path):
    x, y = blobs(300)
    clf = OnlineClassifier(method, exam=3).partial_fit(x, y)
    kept = {value for values in held(clf).values() for value in values}
    gone = np.arange(300) % 2 == 0
    clf.forget(x[gone], y[gone])
    left = {value for values in held(clf).values() for value in values}
    assert left == kept - set(x[gone, 0].tolist())
    assert left != kept
    if method == "slda":
        assert clf.n_seen_ == 150
        stays = ~np.isin(x[:, 0], list(left)) & ~gone
        learned = OnlineClassifier("slda", exam=0).partial_fit(x[stays], y[stays])
        order = [learned.classes_.tolist().index(label) for label in clf.classes_]
        mine, other = (each._model.frozen().scores(torch.from_numpy(x)) for each in (clf, learned))
        assert np.allclose(mine.log_softmax(1), other[:, order].log_softmax(1), atol=1e-3)
    else:
        assert clf.n_seen_ == 300 - len(kept - left)  # those that were never learned
        assert not {row.tobytes() for row in x[gone]} & {row for rows in memory(clf).values() for row in rows}
    lives_on(clf, x, y, tmp_path)


def test_of_equal_samples_as_many_are_forgotten_as_are_given():
    x, y = numbered(200, classes=1)
    x[:] = 1.0
    clf = OnlineClassifier("slda", exam=5).partial_fit(x, y)
    clf.partial_fit(x[:1] * 2, [1])
    clf.forget(x[:3], y[:3])
    assert clf.n_seen_ == 198
    assert held(clf) == {0: [1.0, 1.0]}
    assert clf.forget(x[:197], y[:197]).n_seen_ == 1


@pytest.mark.parametrize("method", ["slda", "er"])
def test_a_class_that_is_forgotten_leaves_the_exam(method, tmp_path):
    x, y = blobs(200)
    clf = OnlineClassifier(method).partial_fit(x, y, classes=[0, 1, 2, 3])
    before = held(clf)
    clf.forget(label=1)
    assert held(clf) == {label: before[label] for label in (0, 2, 3)}
    assert clf.n_seen_ == (y != 1).sum()
    lives_on(clf, x, y, tmp_path)


@pytest.mark.parametrize("method", ["slda", "hybrid"])
def test_joined_classes_share_an_exam_and_what_does_not_fit_is_learned(method, tmp_path):
    x, y = blobs(400)
    clf = OnlineClassifier(method, exam=4).partial_fit(x, y, classes=[0, 1, 2, 3])
    before = held(clf)
    assert [len(values) for values in before.values()] == [4] * 4
    clf.rename({3: 1})
    assert set(held(clf)[1]) == {*before[1][2:], *before[3][2:]}  # the newest of both
    assert clf.n_seen_ == 400
    assert int(clf._model.learner.counts.sum()) == 400 - 12
    lives_on(clf, x, np.where(y == 3, 1, y), tmp_path)


@pytest.mark.parametrize("exams", [(3, 3), (0, 3), (3, 0)])
@pytest.mark.parametrize(("data", "given"), [(blobs, {}), (pictures, {"backbone": SMALL})])
def test_merging_loses_no_sample_of_either_exam(exams, data, given, tmp_path):
    x, y = data(240)
    first, second = (OnlineClassifier("slda", exam=exam, **given) for exam in exams)
    first.partial_fit(x[:120], y[:120])
    second._handed_over = first._model.dictionary()
    second.partial_fit(x[120:], y[120:], classes=[9])
    first.merge(second)
    assert first.n_seen_ == 240
    assert int(first._model.learner.counts.sum()) == 240 - len(first._model.parts.get("exam", ()))
    if exams[0] == 0:
        whole = OnlineClassifier("slda", exam=0, **given)
        whole._handed_over = first._model.dictionary()
        assert apart(first, whole.partial_fit(x, y, classes=first.classes_), x) < 1e-3
    else:
        assert max(map(len, held(first).values())) == 3
    lives_on(first, x, y, tmp_path)


# --- what is read


def test_an_exam_that_could_not_have_been_saved_is_refused():
    x, y = numbered(100)
    exam = Exam(3, Inputs((3,), torch.float32, 0.0, 1.0))
    exam.hold_out(torch.from_numpy(x), y)
    good = exam.state()
    for change, why in [
        ({"x": good["x"][:, :2]}, "does not match"),
        ({"x": good["x"][:5]}, "does not match"),
        ({"x": good["x"].double()}, "is none"),
        ({"x": good["x"] * torch.nan}, "out of range"),
        ({"y": good["y"].flip(0)}, "never came"),
        ({"y": good["y"] - 1}, "never came"),
        ({"y": good["y"] + 7}, "never came"),
        ({"y": torch.zeros_like(good["y"])}, "more samples"),
        ({"arrivals": good["arrivals"] * 0}, "never came"),
        ({"arrivals": torch.full((3,), 100)}, "does not match"),
        ({"largest": torch.tensor(torch.inf, dtype=torch.float64)}, "out of range"),
    ]:
        with pytest.raises(ValueError, match=why):
            Exam(3, exam.inputs).restore(good | change, 2)
    twin = Exam(3, exam.inputs)
    twin.restore(good, 2)
    assert all(torch.equal(twin.state()[name], good[name]) for name in good)


def test_a_feature_that_grows_for_ever_leaves_no_exam_empty():
    x, y = blobs(2000)
    x[:, 0] = np.arange(2000) + 10
    clf = OnlineClassifier("slda")
    for start in range(0, 2000, 100):
        clf.partial_fit(x[start : start + 100], y[start : start + 100])
    assert len(clf._model.parts["exam"]) == 20 * len(clf.classes_)


@pytest.mark.parametrize("method", ["hybrid", "slda", "fine-tune"])
def test_results_are_the_accuracy_of_each_class_on_what_was_held_out(method):
    x, y = blobs(400, classes=3)
    clf = OnlineClassifier(method, exam=5).partial_fit(x, y)
    frozen = clf._model.frozen()
    rows, asked = (each.numpy() for each in frozen.held_out)
    right = clf.predict(rows) == frozen.classes[asked]
    assert frozen.exam_results().tolist() == [[(asked == c).sum(), right[asked == c].sum()] for c in range(3)]
    assert not OnlineClassifier(method, exam=0).partial_fit(x, y)._model.frozen().exam_results().any()
