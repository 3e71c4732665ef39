"""Taking back: forget, rename, merge, fresh.

Exact with slda: the largest difference of a probability between a model that took something back and one that never learned
it was 6.5e-6 when these tests were written. TOLERANCE is 15 times that, since another processor rounds otherwise.
"""

import re
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from test_estimator import blobs, everything, pictures, same

import mnemon
from mnemon import MnemonError, OnlineClassifier
from mnemon.estimator import taking_back

TOLERANCE = 1e-4
SMALL = "patches:filters=6:images=20:side=4"
NETWORKS = sorted(set(mnemon.methods()) - {"slda"})
REPLAYING = sorted(set(NETWORKS) - {"fine-tune", "iid-online", "iid-offline"})
EDITING = ("gmed-er", "gmed-mir")


def vectors(n=240):
    x, y = blobs(n)
    return x, np.array(["a", "b", "c", "d"])[y]


def images(n=120):
    x, y = pictures(n, channels=3)
    return x, np.array(["a", "b", "c"])[y]


def slda(x, y, **given):
    """Without an exam, of which test_exam.py is: which samples are held out depends on all that came."""
    return OnlineClassifier("slda", **{"exam": 0} | given).partial_fit(x, y)


def apart(a, b, x):
    """The largest difference of a probability, columns compared by label."""
    assert sorted(a.classes_) == sorted(b.classes_)
    order = [b.classes_.tolist().index(label) for label in a.classes_]
    return abs(a.predict_proba(x) - b.predict_proba(x)[:, order]).max()


def memory(clf):
    """{label: bytes of its rows}"""
    kept, labels = clf._model.learner.memory, clf._model.labels.labels
    found = {label: [] for label in labels}
    for x, c in zip(kept.x[: kept.size], kept.y[: kept.size].tolist(), strict=True):
        if c >= 0:
            found[labels[c]].append(x.numpy().tobytes())
    return found


def lives_on(clf, x, y, folder):
    """It is saved and loaded bit for bit, counts add up, and both learn on alike."""
    model = clf._model
    assert int(model.learner.counts.sum()) == model.learner.samples == clf.n_seen_ - len(model.parts.get("exam", ()))
    assert len(model.labels) == model.n_classes == len(clf.classes_)
    p = clf.predict_proba(x)
    assert p.shape == (len(x), len(clf.classes_))
    assert np.allclose(p.sum(1), 1)
    clf.save(folder)
    twin = OnlineClassifier.load(folder)
    assert (twin.predict_proba(x) == p).all()
    for each in (clf, twin):
        each.partial_fit(x, y)
    assert same(everything(twin)[:-1], everything(clf)[:-1])
    assert (twin.predict_proba(x) == clf.predict_proba(x)).all()


# --- slda is exact


@pytest.mark.parametrize(
    ("data", "given"), [(vectors, {}), (images, {"backbone": SMALL}), (images, {"backbone": SMALL, "views": 2})]
)
def test_samples_that_are_forgotten_were_never_learned(data, given, tmp_path):
    x, y = data()
    gone = np.arange(len(x)) % 3 == 2
    gone[:20] = False  # the dictionary is given
    clf = slda(x, y, **given).forget(x[gone], y[gone])
    assert apart(clf, slda(x[~gone], y[~gone], **given), x) < TOLERANCE
    assert clf.n_seen_ == (~gone).sum()
    lives_on(clf, x, y, tmp_path)


def test_samples_that_wait_for_the_dictionary_are_forgotten_to_the_bit(tmp_path):
    x, y = images()
    x[3] = x[1]
    y[3] = y[1]
    clf = slda(x[:15], y[:15], backbone=SMALL).forget(x[[1, 7]], y[[1, 7]])
    rest = [0, 2, 3, 4, 5, 6, *range(8, 15)]  # of the two that are equal, one
    other = slda(x[rest], y[rest], backbone=SMALL)
    for each in (clf, other):
        assert each.n_seen_ == 13
        each.partial_fit(x[15:], y[15:])
    assert apart(clf, other, x) < TOLERANCE
    assert clf._model.learner.digest() == other._model.learner.digest()
    early = slda(x[:15], y[:15], backbone=SMALL).forget(label="b")
    assert early.n_seen_ == (y[:15] != "b").sum()
    assert early.classes_.tolist() == [label for label in dict.fromkeys(y[:15]) if label != "b"]
    lives_on(early, x, y, tmp_path)


def test_a_class_is_forgotten_with_its_part_of_the_covariance_where_its_samples_are_given():
    x, y = vectors()
    clf = slda(x, y)
    order = clf.classes_.tolist()
    clf.forget(x[y == "b"], y[y == "b"])
    assert clf.classes_.tolist() == order  # samples are forgotten, the label is still registered
    assert (clf.predict_proba(x)[:, order.index("b")] == 0).all()
    clf.forget(label="b")
    assert clf.classes_.tolist() == [label for label in order if label != "b"]
    assert apart(clf, slda(x[y != "b"], y[y != "b"]), x) < TOLERANCE


def test_a_class_forgotten_by_its_label_leaves_its_part_of_the_covariance():
    x, y = vectors()
    clf = slda(x, y, classifier="gaussian:shrink=diagonal")  # a λ of "auto" would depend on the number of classes
    covariance = clf._model.learner.statistics.covariance().tril()
    order, p = clf.classes_.tolist(), clf.predict_proba(x)
    clf.forget(label="b")
    assert torch.equal(clf._model.learner.statistics.covariance().tril(), covariance)
    p = np.delete(p, order.index("b"), axis=1)
    assert np.allclose(clf.predict_proba(x), p / p.sum(1, keepdims=True), atol=TOLERANCE)
    assert "b" not in clf.predict(x)
    clf.partial_fit(x[y == "b"], y[y == "b"])  # it comes again: a new class
    assert clf.classes_.tolist() == [*[label for label in order if label != "b"], "b"]
    assert clf.score(x, y) > 0.9


@pytest.mark.parametrize(
    ("data", "given"), [(vectors, {}), (images, {"backbone": SMALL}), (images, {"backbone": SMALL, "views": 2})]
)
def test_merged_halves_are_one_that_learned_all(data, given, tmp_path):
    x, y = data()
    n = len(x) // 2
    first = slda(x[:n], y[:n], **given)
    second = first.fresh()
    assert not second.__sklearn_is_fitted__()
    second.partial_fit(x[n:][::-1], y[n:][::-1], classes=["ahead", "a"])
    before = everything(second)
    first.merge(second)
    assert same(everything(second), before)
    whole = slda(x, y, **given).partial_fit(x[:1], y[:1], classes=["ahead"]).forget(x[:1], y[:1])
    assert apart(first, whole, x) < TOLERANCE
    assert first.n_seen_ == len(x)
    assert first.classes_[-1] == "ahead"
    lives_on(first, x, y, tmp_path)


def test_what_a_forgotten_class_left_in_the_covariance_is_merged_too():
    x, y = vectors()
    first, second = slda(x[:120], y[:120]), slda(x[120:], y[120:]).forget(label="b")
    whole = slda(x, y)
    gone = (np.arange(240) >= 120) & (y == "b")
    assert first.merge(second).n_seen_ == (~gone).sum()
    found, expected = (each._model.learner.statistics.covariance() for each in (first, whole))
    # All but what lies between the means of b in the two halves.
    assert torch.allclose(found, expected, atol=0.1)
    assert float(first._model.learner.statistics.weight) == 240


@pytest.mark.parametrize(("data", "given"), [(vectors, {}), (images, {"backbone": SMALL})])
@pytest.mark.parametrize("learned", [15, None])  # with images: all wait, or none
def test_joined_classes_are_one_that_was_learned_under_the_new_label(data, given, learned, tmp_path):
    x, y = data()
    clf = slda(x[:learned], y[:learned], **given).rename({"a": "c"})
    renamed = np.where(y == "a", "c", y)
    assert apart(clf, slda(x[:learned], renamed[:learned], **given), x) < TOLERANCE
    lives_on(clf, x, renamed, tmp_path)


# --- rename


@pytest.mark.parametrize("method", ["slda", "hybrid", "er"])
def test_where_the_columns_are_after_a_rename(method):
    x, y = vectors(80)
    clf = OnlineClassifier(method).partial_fit(x, y, classes=["a", "b", "c", "d"])
    p = clf.predict_proba(x)
    assert (clf.rename({"a": "b", "b": "a", "c": 7}).predict_proba(x) == p).all()
    assert clf.classes_.tolist() == ["b", "a", 7, "d"]
    assert clf.rename({"b": True, "d": True}).classes_.tolist() == [True, "a", 7]  # in the first one's column
    assert clf.rename({True: 7, "a": "a"}).classes_.tolist() == [
        "a",
        7,
    ]  # in the column of the one that keeps its label
    assert clf.n_seen_ == 80
    assert clf.predict_proba(x).shape == (80, 2)


def test_a_label_registered_ahead_gets_what_another_learned():
    x, y = vectors(80)
    clf = OnlineClassifier("er").partial_fit(x, y, classes=["ahead", "a", "b", "c", "d"])
    p = clf.predict_proba(x)
    assert clf.rename({"c": "ahead"}).classes_.tolist() == ["ahead", "a", "b", "d"]
    assert np.allclose(clf.predict_proba(x), p[:, [3, 1, 2, 4]], atol=1e-6)


# --- networks


@pytest.mark.parametrize("method", REPLAYING)
@pytest.mark.parametrize("size", [30, 200])  # a full memory, and one with room
def test_a_network_forgets_the_rows_of_its_memory(method, size, tmp_path):
    x, y = vectors(150)
    clf = OnlineClassifier(method, memory_size=size, seed=2, exam=0).partial_fit(x, y)
    if method in EDITING:
        with pytest.raises(MnemonError, match="edits the samples in its memory"):
            clf.forget(x[:1], y[:1])
        return
    before, state = memory(clf), everything(clf)[0]
    gone = np.arange(150) % 3 == 0
    bytes_gone = {row.tobytes() for row in x[gone]}
    assert any(row in bytes_gone for rows in before.values() for row in rows)
    clf.forget(x[gone], y[gone])
    after = memory(clf)
    assert not any(row in bytes_gone for rows in after.values() for row in rows)
    assert {row for rows in after.values() for row in rows} == {
        row for rows in before.values() for row in rows if row not in bytes_gone
    }
    assert sum(map(len, after.values())) == sum(map(len, before.values()))  # copies stand in
    assert clf.n_seen_ == 150
    assert all(torch.equal(t, state[name]) for name, t in everything(clf)[0].items() if not name.startswith("memory."))
    lives_on(clf, x, y, tmp_path)


@pytest.mark.parametrize("method", NETWORKS)
@pytest.mark.parametrize("size", [20, 200])
def test_a_network_forgets_a_class(method, size, tmp_path):
    x, y = vectors(150)
    clf = OnlineClassifier(method, memory_size=size, seed=2, exam=0).partial_fit(x, y, classes=["a", "b", "c", "d"])
    before, p, rows, edited = everything(clf)[0], clf.predict_proba(x), memory(clf), method in EDITING
    clf.forget(label="b")
    after = everything(clf)[0]
    assert clf.classes_.tolist() == ["a", "c", "d"]
    assert clf.n_seen_ == (y != "b").sum()
    assert not {row.numpy().tobytes() for row in after["memory.x"]} & {row.tobytes() for row in x[y == "b"]} or edited
    assert {label: set(kept) for label, kept in memory(clf).items()} == {label: set(rows[label]) for label in "acd"}
    for name in ("net.head_weight", "average.head_weight", "net.proxies", "net.prototypes"):
        if name in before:
            assert torch.equal(after[name][:3], before[name][[0, 2, 3]])
            assert torch.equal(after[name][4:], before[name][4:])
    if clf._model.choice.classifiers[0].name in ("softmax", "proxy", "prototype"):
        p = p[:, [0, 2, 3]]
        assert np.allclose(clf.predict_proba(x), p / p.sum(1, keepdims=True), atol=1e-5)
    lives_on(clf, x, y, tmp_path)  # and b comes again
    assert clf.classes_.tolist() == ["a", "c", "d", "b"]


@pytest.mark.parametrize("method", NETWORKS)
@pytest.mark.parametrize("size", [12, 200])
def test_a_network_joins_classes(method, size, tmp_path):
    x, y = vectors(150)
    clf = OnlineClassifier(method, memory_size=size, seed=2).partial_fit(x, y)
    rows, counts = memory(clf), dict(zip(clf.classes_, clf._model.learner.counts.tolist(), strict=False))
    clf.rename({"b": "a"})
    assert set(memory(clf)["a"]) <= set(rows["a"] + rows["b"])
    found = dict(zip(clf.classes_, clf._model.learner.counts.tolist(), strict=False))
    assert found == {"a": counts["a"] + counts["b"], "c": counts["c"], "d": counts["d"]}
    assert clf.n_seen_ == 150
    lives_on(clf, x, np.where(y == "b", "a", y), tmp_path)


def test_many_classes_are_forgotten_one_after_the_other():
    """Class tables grew, shrink, and grow again."""
    x, _ = vectors(40)
    clf = OnlineClassifier("der++").partial_fit(x, np.arange(40))
    for label in range(0, 40, 2):
        clf.forget(label=label)
    assert clf.classes_.tolist() == list(range(1, 40, 2))
    clf.partial_fit(x, np.arange(40))
    assert clf.classes_.tolist() == [*range(1, 40, 2), *range(0, 40, 2)]


def test_the_example_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "classifier.md").read_text(encoding="utf-8")
    (code,) = re.findall(
        r"```python\n(.*?)```", page.split("## Unlearning and merging")[1].split("\n## ")[0], re.DOTALL
    )
    found = {}
    exec(code, found)
    assert found["clf"].classes_.tolist() == found["whole"].classes_.tolist() == [1, "3 or 9", 4, 5, 6, 7, 8]
    assert found["difference"] < TOLERANCE


# --- refusals, and nothing half done


def other_dictionary():
    x, y = images()
    return slda(x[50:], y[50:], backbone=SMALL)


def frame(names):
    pd = pytest.importorskip("pandas")
    x, y = vectors(60)
    return slda(pd.DataFrame(x, columns=list(names)), y)


REFUSED = {
    "both": (lambda c, x, y: c.forget(x, y, label="a"), r"forget\(X, y\), or a class"),
    "neither": (lambda c, x, y: c.forget(), r"forget\(X, y\), or a class"),
    "no labels": (lambda c, x, y: c.forget(x), r"forget\(X, y\), or a class"),
    "lengths": (lambda c, x, y: c.forget(x, y[:-1]), "one label a sample"),
    "other samples": (lambda c, x, y: c.forget(vectors()[0], vectors()[1]), "X holds samples of 6 features"),
    "strange label": (lambda c, x, y: c.forget(label="z"), "there is no class 'z'"),
    "strange labels": (lambda c, x, y: c.forget(x[:1], ["z"]), "there is no class 'z'"),
    "no label": (lambda c, x, y: c.forget(label=1.5), "continuous"),
    "too many": (
        lambda c, x, y: c.forget(np.concatenate([x, x[:1]]), [*y, y[0]]),
        r"\d+ samples of the class '.' are to be forgotten, and only \d+ were learned",
    ),
    "all samples": (lambda c, x, y: c.forget(x, y), "nothing that was learned would be left"),
    "rename what": (lambda c, x, y: c.rename({"z": "a"}), "there is no class 'z'"),
    "rename how": (lambda c, x, y: c.rename({"a": None}), "Unknown label type"),
    "rename with": (lambda c, x, y: c.rename("a"), "takes a dict of old and new labels, not str"),
    "merge what": (lambda c, x, y: c.merge(7), "only another OnlineClassifier can be merged, not int"),
    "merge itself": (lambda c, x, y: c.merge(c), "cannot be merged with itself"),
    "merge nothing": (lambda c, x, y: c.merge(c.fresh()), "learned nothing yet"),
    "merge a network": (
        lambda c, x, y: c.merge(OnlineClassifier("hybrid").fit(x, y)),
        "networks cannot be merged exactly: ",
    ),
    "merge other features": (
        lambda c, x, y: c.merge(slda(*vectors())),
        "a model of samples of 6 features as float32 c",
    ),
    "merge another dictionary": (lambda c, x, y: c.merge(other_dictionary()), "these have different dictionaries"),
    "merge too early": (
        lambda c, x, y: c.merge(slda(x[:5], y[:5], backbone=SMALL)),
        "before 20 images were seen there is no dictionary, and it cannot be merged",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_one_sentence_and_changes_nothing(case):
    act, sentence = REFUSED[case]
    x, y = images(60)
    clf = slda(x, y, backbone=SMALL)
    before, p = everything(clf), clf.predict_proba(x)
    with pytest.raises(MnemonError, match=sentence):
        act(clf, x, y)
    assert same(everything(clf), before)
    assert (clf.predict_proba(x) == p).all()


def test_what_else_is_refused():
    x, y = vectors(60)
    for act in (lambda c: c.forget(x, y), lambda c: c.rename({1: 2}), lambda c: c.merge(slda(x, y))):
        with pytest.raises(MnemonError, match="learned nothing yet"):
            act(OnlineClassifier("slda"))
    network = OnlineClassifier(memory_size=20).fit(x, y)
    with pytest.raises(MnemonError, match="networks cannot be merged exactly: "):
        network.merge(OnlineClassifier(memory_size=20).fit(x, y))
    with pytest.raises(MnemonError, match="no sample would be left in the memory"):
        network.forget(x, y)
    with pytest.raises(MnemonError, match="fine-tune keeps no sample"):
        OnlineClassifier("fine-tune").fit(x, y).forget(x, y)
    alone = OnlineClassifier().fit(x, ["one"] * 60)
    with pytest.raises(MnemonError, match=r"nothing .* left; fresh\(\) makes one that has learned nothing"):
        alone.forget(label="one")
    with pytest.raises(MnemonError, match="a class would have no sample left in the memory"):
        OnlineClassifier("cope", memory_size=20).fit(x, y).forget(x[y == "a"], y[y == "a"])
    with pytest.raises(MnemonError, match="not among those that were learned so far and wait"):
        slda(*images(15), backbone=SMALL).forget(images(15)[0][:1] // 2, images(15)[1][:1])


def test_features_with_other_names_are_not_merged():
    with pytest.raises(MnemonError, match="have different names, or come in another order"):
        frame("uvwxyz").merge(frame("zyxwvu"))
    assert frame("uvwxyz").merge(frame("uvwxyz")).n_seen_ == 120


def test_a_sample_with_named_features_is_forgotten():
    x, y = vectors(40)
    samples = [dict(zip("uvwxyz", row, strict=True)) for row in x.tolist()]
    clf = OnlineClassifier("slda", exam=0)
    for sample, label in zip(samples, y.tolist(), strict=True):
        clf.learn_one(sample, label)
    assert clf.forget([dict(reversed(sample.items())) for sample in samples[30:]], y[30:]).n_seen_ == 30
    p = np.array([[clf.predict_proba_one(each)[label] for label in "abcd"] for each in samples])
    other = slda(x[:30], y[:30])
    order = [other.classes_.tolist().index(label) for label in "abcd"]
    assert abs(p - other.predict_proba(x)[:, order]).max() < TOLERANCE


@pytest.mark.parametrize("method", ["slda", "hybrid"])
def test_an_interrupt_leaves_the_model_as_it_was(method, monkeypatch):
    x, y = vectors(60)
    clf, other = (OnlineClassifier(method).fit(x, y) for _ in range(2))
    before, p = everything(clf), clf.predict_proba(x)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mnemon.estimator.model.Model.replace", interrupted)
    acts = [lambda: clf.forget(x[:5], y[:5]), lambda: clf.forget(label="a"), lambda: clf.rename({"a": "b"})]
    for act in [*acts, *([lambda: clf.merge(other)] if method == "slda" else [])]:
        with pytest.raises(KeyboardInterrupt):
            act()
        assert same(everything(clf), before)
        assert (clf.predict_proba(x) == p).all()
    clf._model._frozen = None
    assert (clf.predict_proba(x) == p).all()


def test_whoever_predicts_meanwhile_sees_the_old_model_or_the_new_one(monkeypatch):
    x, y = vectors(60)
    clf = slda(x, y)
    old = clf.predict_proba(x)
    seen = []
    regroup = taking_back.OnlineStatistics.regroup

    def watched(learner, *given):
        regroup(learner, *given)
        thread = threading.Thread(target=lambda: seen.append((clf.predict_proba(x), clf.classes_.tolist())))
        thread.start()
        thread.join(30)

    monkeypatch.setattr(taking_back.OnlineStatistics, "regroup", watched)
    clf.forget(label="a")
    ((p, classes),) = seen
    assert (p == old).all()
    assert len(classes) == 4
    assert clf.predict_proba(x).shape == (60, 3)


# --- fresh


def test_fresh_has_the_parameters_and_the_dictionary_and_has_learned_nothing(tmp_path):
    x, y = images()
    clf = slda(x, y, backbone=SMALL, batch_size=7)
    made = clf.fresh()
    assert made.get_params() == clf.get_params()
    assert not hasattr(made, "classes_")
    for again in (made, made.fresh()):  # handed on, though nothing was learned
        again.partial_fit(x[:2], y[:2])
        assert again._model.learner.digest() == clf._model.learner.digest()
    clf.save(tmp_path)
    there = OnlineClassifier.load(tmp_path).fresh().fit(x, y)
    assert apart(there, clf, x) < TOLERANCE
    assert there.merge(made).n_seen_ == len(x) + 2
    with pytest.raises(MnemonError, match="does not fit these samples or these parameters"):
        clf.fresh().fit(x[:, 1:], y)
    with pytest.raises(MnemonError, match="does not fit these samples or these parameters"):
        clf.fresh().set_params(backbone=SMALL.replace("6", "7")).fit(x, y)
    with pytest.raises(MnemonError, match="before 20 images were seen there is no dictionary"):
        slda(x[:5], y[:5], backbone=SMALL).fresh()


def test_a_fresh_network_is_one_that_was_just_made():
    x, y = vectors(60)
    clf = OnlineClassifier(seed=5).fit(x, y)
    assert same(everything(clf.fresh().fit(x, y)), everything(clf))
    assert OnlineClassifier(memory_size=7).fresh().memory_size == 7


# --- what is left can be saved, whatever was done


@pytest.mark.parametrize("method", ["slda", "er"])
def test_after_many_classes_went_it_is_saved_and_goes_on(method, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 4)), np.arange(1000) % 100
    clf = OnlineClassifier(method, memory_size=200).partial_fit(x, y)
    for label in range(60):
        clf.forget(label=label)
    clf.rename(dict.fromkeys(range(60, 80), 99))
    clf.save(tmp_path / "model")
    loaded = OnlineClassifier.load(tmp_path / "model")
    for each in (clf, loaded):
        each.partial_fit(x[:300] + 3, y[:300])
    assert (clf.predict_proba(x) == loaded.predict_proba(x)).all()


def test_a_model_without_a_detector_or_an_exam_can_be_merged_in(tmp_path):
    rng = np.random.default_rng(0)
    rows = [{"a": float(v), "b": float(w)} for v, w in rng.normal(size=(90, 2))]
    more = [row | {"z": 1.0} for row in rows]
    y = [i % 3 for i in range(90)]
    here = OnlineClassifier("slda", features="open", exam=0).partial_fit(rows, y)
    there = OnlineClassifier("slda", features="open").partial_fit(more, [c + 5 for c in y])
    del there._model.parts["drift"]  # as a model of mnemon 0.1 has none
    here.merge(there).save(tmp_path / "model")
    assert OnlineClassifier.load(tmp_path / "model").n_seen_ == 180


@pytest.mark.parametrize(
    ("left", "options"), [(6, {}), (5, {}), (30, {"method": "slda"}), (1, {"backbone": "identity"})]
)
def test_what_is_left_predicts_however_little_it_is(left, options):
    """What removals leave of the scatter is rounding, and no reason to fail."""
    digits = load_digits()
    x = digits.data.astype(np.float32)
    if not options:
        x = (np.kron(digits.images, np.ones((1, 2, 2))) * 15).astype(np.uint8)
    n = left + (6 if not options else 300)
    clf = OnlineClassifier(**options, exam=0).partial_fit(x[:n], digits.target[:n])
    clf.forget(x[: n - left], digits.target[: n - left])
    alone = clf.fresh().partial_fit(x[n - left : n], digits.target[n - left : n])
    agree = np.mean(clf.predict(x[400:600]) == alone.predict(x[400:600]))
    assert agree > 0.85  # equal but for rounding, which decides where hardly anything was learned


# --- samples that were never learned


@pytest.mark.parametrize("images", [False, True])
def test_statistics_notice_what_cannot_have_been_learned_and_stay_as_they_are(images):
    x, y = load_digits(return_X_y=True)
    x = (15 * x).astype(np.uint8).reshape(-1, 8, 8) if images else x
    clf = OnlineClassifier("slda", exam=0, **{"backbone": "patches:filters=16"} if images else {}).partial_fit(
        x[:200], y[:200]
    )
    before = everything(clf)
    others = x[1000:][y[1000:] == 3][: (y[:200] == 3).sum()]
    for never, labels in ((x[1000:1100], y[:100]), (others, [3] * len(others))):
        with pytest.raises(MnemonError, match="cannot all have been learned under these labels"):
            clf.forget(never, labels)
        assert same(everything(clf), before)
    clf.forget(x[:190], y[:190])  # those that were


@pytest.mark.parametrize("kind", ["Gaussian", "units", "heavy tails", "rare"])
@pytest.mark.filterwarnings("ignore")
def test_statistics_never_refuse_what_was_learned_in_however_many_calls(kind):
    """What is left after many removals is mostly the rounding of what was learned before them."""
    rng = np.random.default_rng(7)
    n, d = 12_000, 6
    x = {
        "Gaussian": lambda: rng.normal(size=(n, d)),
        "units": lambda: rng.normal(size=(n, d)) * 10.0 ** np.arange(-3, 3) + 10.0 ** np.arange(6)[::-1],
        "heavy tails": lambda: rng.standard_t(2, size=(n, d)),
        "rare": lambda: (rng.random((n, d)) < 0.05).astype(float),
    }[kind]()
    y = rng.integers(0, 3, n)
    clf = OnlineClassifier("slda", exam=0).partial_fit(x, y)
    at = 0
    while at < n - 2:
        more = max(1, (n - at) // 3)
        clf.forget(x[at : at + more], y[at : at + more])
        at += more
    assert clf.n_seen_ == n - at
