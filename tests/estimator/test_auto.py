"""OnlineClassifier(method="auto"), the default: which learner it takes for which samples, and what of it is saved."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from torch import nn

from mnemon import Embedding, MnemonError, OnlineClassifier
from mnemon.estimator import auto

PATCHES = "patches:power=0.5:threshold=0.5"


def vectors(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return (rng.normal(size=(n, 6)) + 3 * np.eye(6)[y]).astype(np.float32), y


def images(n=40, side=12):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n)
    return (60 * y[:, None, None, None] + rng.integers(0, 60, (n, side, side, 3))).astype(np.uint8), y


def frozen():
    module = nn.Linear(6, 4)
    module.requires_grad_(False)
    return module


def doubled(rows):
    return 2 * np.asarray(rows, np.float32)


KINDS = {  # samples, parameters → method, classifier, backbone
    "images": (images, {}, ("slda", "gaussian:lam=auto", PATCHES)),
    "vectors": (vectors, {}, ("hybrid", "ridge", "MLP")),
    "open tables": (vectors, {"features": "open"}, ("hybrid", "ridge", "MLP")),
    "images without room for patches": (lambda: images(side=7), {}, ("hybrid", "ridge", "MLP")),
    "embeddings": (vectors, {"backbone": "identity"}, ("slda", auto.EMBEDDINGS["classifier"], "identity")),
    "embedding function": (
        vectors,
        {"backbone": Embedding(doubled)},
        ("slda", auto.EMBEDDINGS["classifier"], "identity"),
    ),
    "a module that is not trained": (
        vectors,
        {"backbone": frozen()},
        ("slda", auto.EMBEDDINGS["classifier"], "Linear"),
    ),
    "a module that is": (vectors, {"backbone": nn.Linear(6, 4)}, ("hybrid", "ridge", "Linear")),
    "patches with options": (
        images,
        {"backbone": "patches:filters=8"},
        ("slda", "gaussian:lam=auto", "patches:filters=8"),
    ),
    "an mlp": (images, {"backbone": "mlp:width=8"}, ("hybrid", "ridge", "mlp:width=8")),
    "a classifier of statistics": (
        vectors,
        {"classifier": "gaussian:lam=0.01"},
        ("slda", "gaussian:lam=0.01", "Flatten"),
    ),
    "a classifier of the memory": (images, {"classifier": "ncm"}, ("hybrid", "ncm", "MLP")),
}
OF_NETWORKS = [
    {"lr": 0.1},
    {"gamma": 0.5},
    {"loss": "ms"},
    {"average": 0},
    {"memory_size": 20},
    {"batch_size": 5},
    {"replay_size": 5},
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_of_samples_and_what_is_given_decide(kind, tmp_path):
    samples, given, want = KINDS[kind]
    x, y = samples()
    clf = OnlineClassifier(**given)
    assert clf.get_params()["method"] == "auto"
    clf.partial_fit(x, y)
    found = clf.resolved_
    assert (found["method"], found["classifier"], found["backbone"]) == want

    assert clone(clf).get_params()["method"] == "auto"
    assert clf.get_params()["backbone"] is given.get("backbone", "auto")

    clf.save(tmp_path / "model")
    code = {} if isinstance(clf.backbone, str) else {"backbone": clf.backbone}
    loaded = OnlineClassifier.load(tmp_path / "model", **code)
    assert loaded.resolved_ == found
    assert (loaded.method, loaded.backbone) == ("auto", clf.backbone)
    for each in (clf, loaded):  # both go on
        each.partial_fit(x[:20], y[:20])
    assert (loaded.predict_proba(x) == clf.predict_proba(x)).all()


@pytest.mark.parametrize("given", OF_NETWORKS, ids=lambda given: next(iter(given)))
def test_an_option_that_only_a_network_has_asks_for_a_network(given):
    x, y = images()
    assert OnlineClassifier(**given).partial_fit(x, y).resolved_["method"] == "hybrid"
    at_default = {name: auto.OF_NETWORKS[name] for name in given}
    assert OnlineClassifier(**at_default).partial_fit(x, y).resolved_["method"] == "slda"


def test_it_is_the_model_of_the_same_choice_spelt_out():
    for samples, spelt in (
        (images, {"method": "slda", "backbone": PATCHES, "classifier": "gaussian:lam=auto"}),
        (vectors, {"method": "hybrid", "classifier": "ridge"}),
    ):
        x, y = samples()
        auto_, other = OnlineClassifier().partial_fit(x, y), OnlineClassifier(**spelt).partial_fit(x, y)
        assert (auto_.predict_proba(x) == other.predict_proba(x)).all()


def test_a_saved_model_states_what_auto_meant_and_keeps_it_when_that_changes(tmp_path, monkeypatch):
    x, y = images()
    clf = OnlineClassifier().partial_fit(x, y)
    clf.save(tmp_path / "model")
    (path,) = (path for path in (tmp_path / "model").iterdir() if path.suffix == ".json")
    stated = json.loads(path.read_text())["values"]
    assert (stated["method"], stated["backbone"], stated["classifier"]) == ("slda", PATCHES, "gaussian:lam=auto")
    assert stated["auto"] == {"backbone": "auto"}

    monkeypatch.setattr(auto, "PATCHES", {"method": "hybrid", "classifier": "ncm"})  # a later version
    loaded = OnlineClassifier.load(tmp_path / "model")
    assert loaded.resolved_ == clf.resolved_
    assert (loaded.partial_fit(x, y).predict_proba(x) == clf.partial_fit(x, y).predict_proba(x)).all()
    assert loaded.fit(x, y).resolved_["method"] == "hybrid"  # a fit begins anew, with what auto means then


def test_before_anything_was_learned_nothing_is_resolved():
    with pytest.raises(AttributeError, match="no 'resolved_' before it has learned something"):
        _ = OnlineClassifier().resolved_


def test_images_learned_on_two_machines_merge_by_default():
    x, y = images(60)
    start = OnlineClassifier(exam=0).partial_fit(x[:20], y[:20])
    one, two = (start.fresh().partial_fit(x[part], y[part]) for part in (slice(20, 40), slice(40, 60)))
    whole = start.fresh().partial_fit(x, y)
    start.merge(one).merge(two)
    assert np.abs(start.predict_proba(x) - whole.predict_proba(x)).max() < 1e-3


@pytest.mark.parametrize(
    ("shape", "method"), [((64, 1024), "hybrid"), ((16, 128), "hybrid"), ((8, 32), "slda"), ((14, 64), "slda")]
)
def test_long_and_narrow_images_are_learned_too(shape, method):
    rng = np.random.default_rng(0)
    y = np.arange(24) % 2
    x = (100 * y[:, None, None, None] + rng.integers(0, 100, (24, *shape, 1))).astype(np.uint8)
    clf = OnlineClassifier().partial_fit(x, y)
    assert clf.resolved_["method"] == method
    assert clf.predict(x).shape == (24,)


@pytest.mark.parametrize(
    ("samples", "given"),
    [(vectors, {"classifier": "gaussian", "memory_size": 100}), (images, {"backbone": "patches", "memory_size": 500})],
)
def test_options_that_contradict_each_other_are_named(samples, given):
    with pytest.raises(
        MnemonError, match=r"memory_size asks for a network, and (classifier|backbone)=.* for statistics"
    ):
        OnlineClassifier(**given).partial_fit(*samples())
