"""What is measured beside the accuracy matrix: the formulas, and that the training does not notice."""

import json
import math

import numpy as np
import pytest
import torch

import mnemon
import mnemon.report
from mnemon import MnemonError, metrics
from mnemon.experiments.executor import Executor, executor_for
from mnemon.experiments.measures import learn_tested
from mnemon.experiments.run import Run
from mnemon.experiments.runner import run_all
from mnemon.experiments.scenario import make_scenario
from mnemon.experiments.spec import Spec
from mnemon.experiments.store import ResultFolder
from mnemon.report import table as report_table

MATRIX = [[90, None, None], [60, 80, None], [70, 50, 95]]
NEW = ("backward_transfer", "min_accuracy", "prequential_accuracy", "probe_accuracy", "seconds", "finished", "run")


def made(method="er", measures=(), classifiers=("ncm", "softmax"), stream="split-digits"):
    spec = Spec(method, stream, 0, classifiers=classifiers, measures=measures)
    choice = spec.choice()
    cpu = torch.device("cpu")
    return Run(choice, make_scenario(spec, choice, cpu), seed=0, device=cpu, measures=spec.measures)


def finish(run):
    while not run.finished:
        Executor(run).advance()
    return run


def test_backward_transfer_and_the_worst_accuracy_after_a_task():
    assert metrics.backward_transfer(MATRIX) == pytest.approx(((70 - 90) + (50 - 80)) / 2)
    assert metrics.min_accuracy(MATRIX) == pytest.approx((60 + 50) / 2)
    for single in ([[50.0, 60.0]], [[50.0]], [[50.0], [60.0]]):
        assert math.isnan(metrics.backward_transfer(single))
        assert math.isnan(metrics.min_accuracy(single))


@pytest.mark.parametrize("method", ["er", "slda"])
def test_the_training_is_the_same_bit_for_bit(method):
    classifiers = ("ncm", "softmax") if method == "er" else ()
    plain, asked = finish(made(method, (), classifiers)), finish(made(method, ("prequential", "probe"), classifiers))
    expected, found = plain.learner.state(), asked.learner.state()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert asked.rows == plain.rows
    assert plain.prequential == {}
    assert "prequential" not in plain.state()[1]


def test_each_batch_is_predicted_before_it_is_learned():
    run = finish(made(measures=("prequential",)))
    by_hand, right = made(), {"ncm": 0, "softmax": 0}
    for batch in by_hand.batches:
        x, y = by_hand.scenario.x[batch], by_hand.y[torch.from_numpy(batch)]
        if by_hand.position:
            for name, scores in zip(right, by_hand.learner.scores(x, by_hand.choice.classifiers), strict=True):
                right[name] += int((scores.argmax(1) == y).sum())
        by_hand.position += by_hand.learner.learn(by_hand.scenario.x, by_hand.y, batch[None])
    counted = (len(by_hand.batches) - 1) * 10  # the first batch has no model to predict it
    assert run.prequential == {name: [count, counted] for name, count in right.items()}
    assert 0 < right["ncm"] < counted


def test_a_run_that_stops_counts_no_batch_twice():
    whole, stopped = finish(made(measures=("prequential",))), made(measures=("prequential",))
    asked = iter([True] * 6 + [False])
    stopped.count_steps(learn_tested(stopped, lambda: next(asked)), 0.0)
    assert stopped.position == 7
    tensors, values = stopped.state()
    saved = {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(json.dumps(values))
    resumed = made(measures=("prequential",))
    resumed.restore(*saved)
    assert finish(resumed).prequential == whole.prequential


def test_the_probe_is_a_linear_classifier_of_the_final_features():
    record = mnemon.run("er", "split-digits", measure=["probe"])
    assert (
        record["average_accuracy"] < record["probe_accuracy"]
    )  # forgetting is the softmax head's more than the features'
    assert 85 < record["probe_accuracy"] < 100
    assert "prequential_accuracy" not in record


def test_records_and_reports_have_them_and_older_ones_show_a_dash(tmp_path):
    plain, asked = (run_all([Spec("er", "split-digits", s, measures=m) for s in (0, 1)], tmp_path, jobs=jobs)
                    for m, jobs in (((), 1), (("probe", "prequential"), 2)))  # fmt: skip
    for a, b in zip(plain, asked, strict=True):
        assert a["run"] != b["run"]
        assert {k: v for k, v in a.items() if k not in (*NEW, "at_once")} == {
            k: v for k, v in b.items() if k not in (*NEW, "at_once")
        }
        assert a["backward_transfer"] == metrics.backward_transfer(a["accuracy_matrix"]) < 0
        assert 0 < b["prequential_accuracy"] < 100
    old = {
        k: v for k, v in mnemon.run("hybrid", "split-digits").items() if k not in NEW or k in ("seconds", "finished")
    }
    ResultFolder(tmp_path).append([old | {"run": "old"}])
    page = mnemon.report.write(tmp_path).read_text(encoding="utf-8")
    for title in ("Backward transfer", "min-ACC", "Prequential accuracy", "Linear probe"):
        assert f'<th scope="col">{title}</th>' in page
    row = page[page.index("hybrid + NCM</th>") :].partition("</tr>")[0]
    assert row.count('title="not defined">–') == 4
    table = report_table.write(tmp_path, tmp_path / "t.md").read_text(encoding="utf-8")
    assert "| Prequential accuracy | Linear probe | runs |" in table


def test_what_is_not_known_is_refused():
    with pytest.raises(MnemonError, match="unknown measure 'probes'; did you mean 'probe'"):
        mnemon.run("er", "split-digits", measure="probes")


def test_nothing_is_captured_between_predictions():
    run = made(measures=("prequential",))
    assert type(executor_for(run)) is Executor
    assert np.isnan(metrics.backward_transfer([[1.0]]))
