# SPDX-License-Identifier: Apache-2.0
"""Quantiles without scipy against those of scipy."""

import math

import pytest
from scipy import stats
from tpcsweep.common.quantiles import normal_quantile, student_quantile

TAILS = (0.4, 0.05, 0.025, 1e-3, 1e-6)


@pytest.mark.parametrize("freedom", [1, 2, 4, 7, 7.3, 49, 9999, 1e4, 1e6, math.inf])
def test_quantiles_of_student_are_those_of_scipy(freedom: float) -> None:
    found = [student_quantile(tail, freedom) for tail in TAILS]
    assert found == pytest.approx(stats.t.isf(TAILS, freedom), rel=1e-6)


def test_quantiles_of_the_normal_distribution_and_those_that_do_not_exist() -> None:
    assert [*map(normal_quantile, TAILS)] == pytest.approx(stats.norm.isf(TAILS), rel=1e-9)
    assert student_quantile(0.975, 7) == pytest.approx(-student_quantile(0.025, 7))
    assert all(math.isnan(student_quantile(0.025, freedom)) for freedom in (math.nan, 0.0, -1.0))
