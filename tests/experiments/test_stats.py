"""Estimates over runs."""

from __future__ import annotations

import pytest

from mnemon.experiments.stats import Estimate, estimate, fixed, paired_difference
from mnemon.render import names


def test_an_estimate_is_the_mean_with_its_interval_by_student() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found is not None
    assert (found.mean, found.n) == (2.0, 3)
    assert found.half == pytest.approx(4.302652729911275 / 3**0.5)  # t_{0.975, 2} · s / √n
    assert str(found) == "2.00 ± 2.48"


def test_a_single_run_has_no_interval_and_no_run_no_estimate() -> None:
    assert estimate([51.0]) == Estimate(51.0, None, 1)
    assert str(Estimate(51.0, None, 1)) == "51.00"
    assert estimate([]) is None
    assert estimate([None, None]) is None


def test_undefined_values_do_not_count() -> None:
    found = estimate([1.0, None, 3.0])
    assert found is not None
    assert (found.mean, found.n) == (2.0, 2)


def test_a_difference_pairs_the_seeds_that_both_have() -> None:
    found = paired_difference({0: 5.0, 1: 6.0, 7: 0.0}, {1: 4.0, 0: 3.0, 9: 9.0})
    assert found is not None
    assert (found.mean, found.n) == (2.0, 2)
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


@pytest.mark.parametrize(("mean", "half", "sign"), [(2.0, 1.0, 1), (-2.0, 1.0, -1), (0.5, 1.0, 0), (2.0, None, 0)])
def test_the_sign_of_a_difference_is_zero_where_the_interval_holds_zero(
    mean: float, half: float | None, sign: int
) -> None:
    assert Estimate(mean, half, 2).sign == sign


def test_signs_are_written_with_a_true_minus_and_zero_has_none() -> None:
    assert Estimate(-1.5, 0.5, 2).text() == "−1.50 ± 0.50"
    assert Estimate(-0.001, None, 1).text(signed=True) == "0.00"
    assert Estimate(1.5, None, 1).text(1, signed=True) == "+1.5"


def test_names_write_numbers_with_the_same_function() -> None:
    assert names.fixed is fixed
    assert [fixed(value, signed=True) for value in (1.234, -1.234, 0.001)] == ["+1.23", "−1.23", "0.00"]
    assert names.number(-0.5) == "−0.5"
