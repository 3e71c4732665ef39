"""The paper's Split MNIST cells on the real images, 15 seeds, against the paper and against our own records."""

from pathlib import Path

import pytest

from mnemon import data, metrics
from mnemon.experiments import runner
from mnemon.experiments.index import RecordIndex
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder

pytestmark = pytest.mark.slow
RECORDED = RecordIndex(ResultFolder(Path(__file__).parents[2] / "results").read())


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    data.load("mnist")
    specs = [
        Spec(m, "split-mnist", seed, classifiers=c)
        for m, c in (("hybrid", ("ncm",)), ("er", ("softmax", "ncm")), ("fine-tune", ("softmax",)))
        for seed in range(15)
    ]
    return runner.run_all(specs, tmp_path_factory.mktemp("mnist"), device="cpu")


def values(found, method, classifier, what="average_accuracy"):
    chosen = {
        r["seed"]: r[what]
        for r in found
        if (r["method"], r["classifier"], r["stream"], r["split"]) == (method, classifier, "split-mnist", "test")
    }
    assert sorted(chosen) == list(range(15))
    return list(chosen.values())


def test_hybrid_reaches_the_paper(measured):
    mean, _ = metrics.confidence_interval(values(measured, "hybrid", "ncm"))
    forgetting, _ = metrics.confidence_interval(values(measured, "hybrid", "ncm", "average_forgetting"))
    assert mean >= 0.985 * 88.79
    assert forgetting < 11


def test_baselines_are_where_the_paper_has_them(measured):
    er, _ = metrics.confidence_interval(values(measured, "er", "softmax"))
    fine_tune, _ = metrics.confidence_interval(values(measured, "fine-tune", "softmax"))
    assert 79 <= er <= 87
    assert 19 <= fine_tune <= 20.5


@pytest.mark.parametrize(("method", "classifier"), [("hybrid", "ncm"), ("er", "softmax"), ("er", "ncm")])
def test_the_recorded_cells_are_measured_again(measured, method, classifier):
    """The committed interval holds what this machine measures; two-sided, for too good is as wrong as too bad."""
    recorded = RECORDED.like(Spec(method, "split-mnist"), classifier)  # other settings of the method are other cells
    mean, half = metrics.confidence_interval([recorded[seed]["average_accuracy"] for seed in range(15)])
    again, _ = metrics.confidence_interval(values(measured, method, classifier))
    assert abs(again - mean) <= half
