"""How far runs differ: against cases worked by hand."""

import pytest

from pag.spread import compared, mean_and_spread, sure


def test_mean_and_spread_by_hand() -> None:
    assert mean_and_spread([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert mean_and_spread([1.0]) == (1.0, None)


def test_a_difference_and_its_error_by_hand() -> None:
    """Both variances are 2, so the pooled one is; its error is √(2 · (1/2 + 1/2))."""
    assert compared([4.0, 6.0], [1.0, 3.0]) == (3.0, pytest.approx(2**0.5))
    assert compared([4.0], [1.0, 3.0]) == (2.0, None)


def test_two_runs_a_side_ask_for_more_than_six_do() -> None:
    assert sure(4.31, 1.0, runs=4) and not sure(-4.29, 1.0, runs=4)
    assert sure(-2.24, 1.0, runs=12) and not sure(2.22, 1.0, runs=12)
