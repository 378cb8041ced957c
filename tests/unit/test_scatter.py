# SPDX-License-Identifier: Apache-2.0
"""The scatter of cells about a fit: it comes back, and it is that of cells with a similar throughput."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tpcsweep.models.scatter import BAND, Scatter

LEVELS = (np.arange(1000) + 0.5) / 1000


def test_a_full_path_keeps_its_narrow_scatter_beside_slow_cells_that_stall() -> None:
    generator = np.random.default_rng(0)
    fitted = np.repeat([0.1, 1.0], 5 * BAND)
    spread = np.where(fitted < 0.5, 0.5, 0.02)
    scatter = Scatter.of(fitted * np.exp(spread * generator.standard_normal(fitted.size)), fitted)
    slow, full = np.log(scatter.factors(LEVELS, np.array([0.1, 1.0]))).std(axis=0)
    assert 0.4 < slow < 0.6
    assert 0.015 < full < 0.025


def test_between_bands_it_changes_evenly() -> None:
    scatter = Scatter(np.log([0.1, 1.0]), np.array([np.linspace(-1, 1, 100), np.zeros(100)]))
    middle = scatter.factors(np.array([0.995]), np.array([np.sqrt(0.1)]))
    assert np.isclose(np.log(middle[0, 0]), 0.5)
    beyond = scatter.factors(np.array([0.995]), np.array([1e-3, 50.0]))
    assert np.allclose(np.log(beyond[0]), [1.0, 0.0])


def test_few_cells_are_one_band_widened_by_what_the_fit_used_up() -> None:
    fitted = np.linspace(0.1, 1.0, 20)
    measured = fitted * np.exp(np.tile([-0.1, 0.1], 10))
    assert np.isclose(np.abs(np.log(Scatter.of(measured, fitted).factors(LEVELS, fitted))).max(), 0.1)
    widened = Scatter.of(measured, fitted, unknowns=10)
    assert len(widened.at) == 1
    assert np.isclose(np.abs(np.log(widened.factors(LEVELS, fitted))).max(), 0.1 * np.sqrt(2))


@given(st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=150))
def test_it_is_finite_in_order_and_survives_json(cells: list[tuple[float, float]]) -> None:
    throughput, fitted = np.array(cells).T
    scatter = Scatter.of(throughput, fitted)
    kept = Scatter.from_dict(json.loads(json.dumps(scatter.to_dict())))
    factors = kept.factors(LEVELS[::50], fitted)
    assert np.isfinite(factors).all()
    assert (np.diff(factors, axis=0) >= 0).all()
    assert np.allclose(factors, scatter.factors(LEVELS[::50], fitted), rtol=1e-2)
