# SPDX-License-Identifier: Apache-2.0
"""The lookup table: what was measured comes back, lines lie between, and holes are filled."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from tpcsweep.models import fit_table, observe
from tpcsweep.models.learned import LookupTable

from tests.support.coverage import of_same


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
