# SPDX-License-Identifier: Apache-2.0
"""The scatter of cells about a fit: it comes back, and it is that of cells with a similar throughput."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tpcsweep.models.predictor import BAND, Scatter

LEVELS = (np.arange(1000) + 0.5) / 1000


def test_a_full_path_keeps_its_narrow_scatter_beside_slow_cells_that_stall() -> None:
    generator = np.random.default_rng(0)
    fitted = np.repeat([0.1, 1.0], 5 * BAND)
    spread = np.where(fitted < 0.5, 0.5, 0.02)
    scatter = Scatter.of(spread * generator.standard_normal(fitted.size), fitted)
    slow, full = scatter.residuals(LEVELS, np.array([0.1, 1.0])).std(axis=0)
    assert 0.4 < slow < 0.6 and 0.015 < full < 0.025


def test_between_bands_it_changes_evenly() -> None:
    scatter = Scatter(np.log([0.1, 1.0]), np.array([np.linspace(-1, 1, 100), np.zeros(100)]))
    found = scatter.residuals(np.array([0.995]), np.array([1e-3, np.sqrt(0.1), 50.0]))
    assert np.allclose(found[0], [1.0, 0.5, 0.0])


@given(st.lists(st.integers(1, 3 * BAND), min_size=1, max_size=6), st.randoms())
@settings(max_examples=25)
def test_the_order_of_rows_makes_no_difference(sizes: list[int], random: Random) -> None:
    """Rows of the same prediction are not shared out among bands by where they stand."""
    fitted = np.repeat(np.arange(1.0, len(sizes) + 1), sizes)
    residuals = np.linspace(-1, 1, fitted.size)  # as if runs with other luck came one after another
    order = np.array(random.sample(range(fitted.size), fitted.size))
    one, other = Scatter.of(residuals, fitted), Scatter.of(residuals[order], fitted[order])
    assert np.allclose(one.quantiles, other.quantiles) and np.allclose(one.at, other.at)
    assert len(one.at) <= max(1, fitted.size // BAND)


@pytest.mark.parametrize("count", [10, BAND, 200])
def test_one_more_residual_is_inside_as_often_as_it_should(count: int) -> None:
    generator = np.random.default_rng(0)
    inside = []
    for _ in range(200):
        scatter = Scatter.of(generator.standard_normal(count), np.ones(count), count - 1)
        low, high = scatter.residuals(np.array([0.025, 0.975]), np.ones(1))[:, 0]
        inside.append(np.mean(np.abs(stats.norm.cdf([low, high]) - 0.5)) * 2)
    assert 0.93 < np.mean(inside) < 0.97


def test_few_degrees_of_freedom_widen_the_tails() -> None:
    scatters = (Scatter.of(np.linspace(-1, 1, 20), np.ones(20), freedom) for freedom in (1e6, 4))
    many, few = (scatter.residuals(np.array([0.025, 0.975]), np.ones(1)) for scatter in scatters)
    assert np.allclose(few / many, stats.t.ppf(0.975, 4) / stats.norm.ppf(0.975), rtol=1e-3)
