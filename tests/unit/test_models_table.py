# SPDX-License-Identifier: Apache-2.0
"""The lookup table, the scatter about a fit, and intervals of one more measurement: they hold as many as they say."""

from functools import partial
from random import Random

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tpcsweep.models import MODELS, fit, fit_process, fit_table, observe
from tpcsweep.models.predictor import BAND, Scatter
from tpcsweep.models.table import LookupTable

from tests.support.coverage import LAWS, Fitter, of_new_run, of_same


def grid(values: np.ndarray) -> xr.Dataset:
    axes = {"tool": ["curl", "davix"], "rtt": [1.0, 10.0, 100.0], "streams": [1, 4, 16]}
    content = xr.DataArray(values, axes, tuple(axes))
    return content.to_dataset(name="throughput").expand_dims(repetition=[1])


@given(st.integers(0, 1000))
@settings(max_examples=4)
def test_what_was_measured_comes_back_and_between_it_lie_lines(seed: int) -> None:
    ds = grid(np.exp(np.random.default_rng(seed).normal(size=(2, 3, 3))))
    table = fit_table(observe(ds))
    found = table.predict(ds.drop_vars("throughput"))
    assert np.allclose(found.throughput, ds.throughput.isel(repetition=0))
    between = xr.Dataset(coords={"tool": ["davix"], "rtt": [10**0.5], "streams": [4]})
    ends = ds.throughput.sel(tool="davix", streams=4, rtt=[1.0, 10.0])
    assert np.allclose(table.predict(between).throughput, np.sqrt(ends.prod()))
    # Beyond the ends it stays as it is there, and says so.
    beyond = table.predict(between.assign_coords(rtt=[1000.0]))
    assert np.allclose(beyond.throughput, ds.throughput.sel(tool="davix", streams=4, rtt=100.0))
    assert beyond.extrapolated.all()


def test_a_place_has_the_medians_of_its_cells() -> None:
    def fitted(rtt: np.ndarray, *repetitions: np.ndarray) -> LookupTable:
        axes = {"repetition": [*range(len(repetitions))], "rtt": rtt}
        return fit_table(observe(xr.Dataset({"throughput": (tuple(axes), np.array(repetitions))}, axes)))

    # Of 13 values the three near 10 ms are one place.
    rtt = np.array([1.0, 10.0, 10.1, 10.9, *np.geomspace(100, 1e4, 9)])
    table = fitted(rtt, np.array([2.0, 9.0, 5.0, 1.0, *[2.0] * 9]))
    assert table.estimate({"rtt": np.array([10.1])}) == pytest.approx(5.0)
    # The median of a point is known for certain where those of others are all the same.
    table = fitted(rtt, *(np.full(13, rate) for rate in (1.5, 0.5, 1.0)))
    assert np.allclose([table.estimate({"rtt": rtt}), *table.uncertainty({"rtt": rtt})], 1.0)


def test_a_hole_has_what_lies_on_the_lines_through_it() -> None:
    rates = np.array([1.0, 2.0])[:, None, None] * np.exp(np.arange(3.0))[None, :, None] * np.ones(3)
    holes = rates.copy()
    holes[0, 1, 1] = holes[1, 0, :] = np.nan
    found = fit_table(observe(grid(holes))).predict(grid(rates).drop_vars("throughput")).throughput
    assert found.values[0, 1, 1] == pytest.approx(rates[0, 1, 1])
    assert found.values[1, 0] == pytest.approx(rates[1, 1])  # at an edge: as its neighbour


def test_intervals_hold_points_that_were_left_out_and_too_little_is_refused() -> None:
    found = [of_same("window", fit_table, seed) for seed in range(4)]
    assert np.mean(found) >= 0.92  # narrower by a third they hold 86 %
    with pytest.raises(ValueError, match="at least three points"):
        fit_table(observe(grid(np.ones((2, 3, 3))).isel(tool=0, rtt=0, streams=[0, 1])))


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


OUTLIERS = dict(zip(LAWS, (0.0, 0.04, 0.04, 0.0), strict=True))


def fitter_of(law: str) -> Fitter:
    return partial(fit, MODELS[law], resamples=8)


# A process that learns a window takes long, and test_models asks the same of it.
@pytest.mark.parametrize(
    ("law", "knows_the_law"),
    [*((law, True) for law in LAWS), *((law, False) for law in LAWS if law != "window")],
)
def test_one_more_measurement(law: str, knows_the_law: bool) -> None:
    fitter = fitter_of(law) if knows_the_law else fit_process
    found = [of_same(law, fitter, seed, OUTLIERS[law]) for seed in range(4)]
    assert 0.93 <= np.mean(found) <= 0.975


def new_runs(law: str, outliers: float = 0.0, *, told: bool = True) -> float:
    return float(np.mean([of_new_run(law, fitter_of(law), seed, outliers, told=told) for seed in range(4)]))


def test_a_run_that_was_not_seen() -> None:
    told, untold = (new_runs("window", told=known) for known in (True, False))
    assert 0.93 <= told <= 0.975
    assert untold < told - 0.03


@pytest.mark.parametrize("law", ["window", "rao_ramp", "ranges"])
def test_a_run_that_was_not_seen_with_outliers(law: str) -> None:
    assert 0.93 <= new_runs(law, 0.04) <= 0.975
