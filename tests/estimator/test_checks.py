"""scikit-learn's and River's own checks, for every learner. What cannot apply is listed by name, with the reason."""

import random

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import mnemon
from mnemon import OnlineClassifier

METHODS = list(mnemon.methods())
SLOW = pytest.mark.slow
FEW = ["hybrid", "er", "slda"]  # of open tables: class means and a softmax on a network, and no network

# It compares to 1e-7, and a network computes in float32: a sum is rounded otherwise where other samples are beside it.
# `test_a_sample_is_predicted_alone_as_among_others` has the tolerance that holds.
OF_NETWORKS = {"check_methods_subset_invariance": "float32 rounds a sum by how many samples are multiplied at once"}
OF_OPEN_TABLES = {"check_dataframe_column_names_consistency": "features of an open table may come and go"}


def learner(method, **given):
    """With a network that is small, but large enough to learn what scikit-learn asks for."""
    small = {} if method == "slda" else {"backbone": "mlp:width=100", "memory_size": 50}
    return OnlineClassifier(method, **small | given)


def failures(clf):
    """Which of scikit-learn's checks fail, though none says that it may."""
    expected = {} if clf.method == "slda" else dict(OF_NETWORKS)
    if clf.features == "open":
        expected |= OF_OPEN_TABLES
    results = check_estimator(clf, expected_failed_checks=expected, on_skip=None, on_fail=None)
    assert len(results) > 50
    return [(each["check_name"], each["exception"]) for each in results if each["status"] == "failed"]


@pytest.mark.parametrize("backbone", ["auto", "identity"])
@pytest.mark.filterwarnings("default")
def test_scikit_learns_checks_of_the_default(backbone):
    assert failures(OnlineClassifier(backbone=backbone)) == []


@pytest.mark.parametrize("method", [pytest.param(name, marks=SLOW if name == "gss" else ()) for name in METHODS])
@pytest.mark.filterwarnings("default")
def test_scikit_learns_checks(method):
    assert failures(learner(method)) == []


@pytest.mark.parametrize("method", [pytest.param(name, marks=() if name in FEW else SLOW) for name in METHODS])
@pytest.mark.filterwarnings("default")
def test_scikit_learns_checks_on_open_tables(method):
    assert failures(learner(method, features="open")) == []


@pytest.mark.parametrize("method", METHODS)
def test_a_sample_is_predicted_alone_as_among_others(method):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    clf = learner(method).fit(x, x[:, 0] > 0)
    for ask in (clf.decision_function, clf.predict_proba, clf.transform, clf.novelty):
        np.testing.assert_allclose(np.concatenate([ask(row[None]) for row in x]), ask(x), rtol=1e-4, atol=1e-5)


# --- River


@pytest.mark.slow
@pytest.mark.parametrize("features", ["open", "fixed"])
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_rivers_checks(method, features):
    """But for those the estimator says are not for it (`estimator/river.py` has the reasons)."""
    checks = pytest.importorskip("river.checks")
    small = {} if method == "slda" else {"backbone": "mlp:width=8", "memory_size": 10, "replay_size": 2}
    clf = OnlineClassifier(method, features=features, **small)
    random.seed(0)  # River shuffles features
    for check in checks.yield_checks(clf):
        if check.__name__ not in clf._unit_test_skips():
            check(clf.clone())
