"""Metrics on matrices worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemon import MnemonError, metrics

nan = math.nan
A = [[90, nan, nan], [60, 80, nan], [30, 20, 70]]


def test_a_matrix_by_hand():
    assert metrics.average_accuracy(A) == 40
    assert metrics.average_forgetting(A) == (90 - 30 + 80 - 20) / 2
    assert metrics.anytime_accuracy(A) == pytest.approx((90 + 70 + 40) / 3)
    assert metrics.learning_accuracy(A) == 80


def test_the_last_row_takes_no_part_in_the_maximum():
    """So forgetting can be negative: here the first task is better at the end than ever before."""
    assert metrics.average_forgetting([[50, nan], [60, 90]]) == -10


def test_nulls_of_a_record_are_nan():
    assert metrics.average_forgetting([[50, None], [20, 90]]) == 30


def test_one_task():
    assert metrics.average_accuracy([[77.0]]) == 77
    assert math.isnan(metrics.average_forgetting([[77.0]]))
    assert metrics.learning_accuracy([[77.0]]) == 77


def test_iid_has_one_row_for_all_tasks():
    row = [[10.0, 20.0, 30.0]]
    assert metrics.average_accuracy(row) == 20
    assert math.isnan(metrics.average_forgetting(row))
    assert math.isnan(metrics.learning_accuracy(row))


@given(st.integers(2, 8), st.integers(0, 10**6))
def test_forgetting_equals_the_formula_written_out(tasks, seed):
    a = np.random.default_rng(seed).uniform(0, 100, (tasks, tasks))
    a[np.triu_indices(tasks, 1)] = nan
    f = [max(a[k][j] for k in range(j, tasks - 1)) - a[tasks - 1][j] for j in range(tasks - 1)]
    assert metrics.average_forgetting(a) == pytest.approx(sum(f) / (tasks - 1))


def test_interval():
    mean, half = metrics.confidence_interval(list(range(1, 16)))
    assert mean == 8
    assert half == pytest.approx(2.4766, abs=1e-4)
    assert metrics.confidence_interval([1.0, 3.0]) == (2.0, pytest.approx(12.7062, abs=1e-4))


@given(st.lists(st.floats(0, 100), min_size=2, max_size=30))
def test_interval_is_symmetric_in_the_runs(values):
    mean, half = metrics.confidence_interval(values)
    back = metrics.confidence_interval(values[::-1])
    assert (mean, half) == (pytest.approx(back[0]), pytest.approx(back[1], abs=1e-9))
    assert half >= 0


@pytest.mark.parametrize("values", [[], [50.0], [50.0, nan]])
def test_no_interval_where_there_is_none(values):
    with pytest.raises(MnemonError, match="confidence interval"):
        metrics.confidence_interval(values)


def test_an_interval_of_a_matrix_is_refused_for_its_shape():
    with pytest.raises(MnemonError, match=r"a list of numbers, one for each run, not of the shape \(2, 2\)"):
        metrics.confidence_interval([[90.0, 1.0], [70.0, 80.0]])


@pytest.mark.parametrize("above", [0.0, 99.0, nan])
@pytest.mark.parametrize("metric", [m for m in metrics.__all__ if m not in ("area_under_curve", "confidence_interval")])
def test_tasks_that_were_not_learned_yet_take_no_part(metric, above):
    """Others write zeros there, or the accuracy on the tasks to come."""
    full = np.array(A)
    full[np.triu_indices(3, 1)] = above
    assert getattr(metrics, metric)(full) == getattr(metrics, metric)(A)


@pytest.mark.parametrize("samples", [[100], [100, 200, 300], [200, 100], [100, 100]])
def test_an_area_needs_rising_samples(samples):
    assert metrics.area_under_curve([[50.0], [70.0]], [100, 400]) == (50 * 100 + 70 * 300) / 400
    with pytest.raises(MnemonError, match="one for each of the 2 evaluations"):
        metrics.area_under_curve([[50.0], [70.0]], samples)


def test_a_row_without_an_accuracy_is_refused():
    with pytest.raises(MnemonError, match="each row of an accuracy matrix"):
        metrics.anytime_accuracy([[nan, 50.0], [40.0, 60.0]])


@pytest.mark.parametrize("a", [[], [1.0, 2.0], [[1.0, nan]], [[90.0], [60.0, 80.0]], [["high"]]])
def test_what_is_not_a_matrix_is_refused(a):
    with pytest.raises(MnemonError, match="accuracy matrix"):
        metrics.average_accuracy(a)
