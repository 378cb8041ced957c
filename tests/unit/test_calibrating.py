# SPDX-License-Identifier: Apache-2.0
"""Fitting the simulated testbed's parameters to cells whose truth is known."""

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from tpcsweep.configuration.loading import load
from tpcsweep.models.base import Points
from tpcsweep.models.fit import Fit
from tpcsweep.models.observations import Observations
from tpcsweep.testbeds.simulation import calibrating

from tests.support import made_up

ROOT = Path(__file__).parents[2]
TRUTH = {"setup_time": 0.1, "setup_rtts": 6.0, "setup_cpu": 0.02, "redirector_rtts": 13.0}
TRUTH |= {"core_rate_destination": 2.0, "contention": 0.01, "window_share": 0.5, "initial_window": 10.0}
TRUTH |= {"saturation": 0.95}
AXES = {"origins": [1, 2], "cores": [0.2, 0.5, 2.0], "rtt": [2.0, 20.0, 100.0]}
AXES |= {"file_size": [4e6, 64e6], "streams": [1, 4, 16, 64]}
FIXED = {"bandwidth": 2.0, "tcp_buffer": 8e6, "mtu": 9000.0, "queue_limit": np.inf}
RATIO = 1.5


@functools.cache
def summary() -> xr.Dataset:
    """Cells as the fixed point has them, with a little noise, where both sides' CPU is told."""
    model = calibrating.model_for(RATIO)

    def with_redirectors(points: Points, **values: float) -> np.ndarray:
        several = (points["origins"] > 1).astype(float)
        words = {"redirected": several, "encrypted": several * 0 + 1}
        words |= dict.fromkeys(("endless", "reads", "writes"), several * 0)
        return model.function({**points, **words}, **values)

    told = dataclasses.replace(model, function=with_redirectors)
    ds = made_up.measured(told, TRUTH, AXES, fixed=FIXED, noise=0.02)
    cpu = {"source_cpu": ds["throughput"] / RATIO, "destination_cpu": ds["throughput"]}
    return ds.assign(cpu).assign_coords(endpoint="redirector")


@functools.cache
def fitted() -> tuple[Fit, float, Observations]:
    observations, ratio = calibrating.observed(summary())
    return calibrating.calibrate(observations, ratio, resamples=20), ratio, observations


def test_the_parameters_behind_cells_are_found_or_said_not_to_be_determined() -> None:
    found, ratio, _ = fitted()
    assert ratio == pytest.approx(RATIO)
    sure = {name for name, determined in found.determined.items() if determined}
    well_known = {"core_rate_destination", "window_share", "redirector_rtts", "saturation"}
    assert well_known <= sure
    for name in sure:
        # Round trips of set-up and of slow start differ by the size of files alone.
        assert found.values[name] == pytest.approx(TRUTH[name], rel=0.15 if name in well_known else 0.5), name


def test_what_is_written_is_a_testbed_with_the_fitted_values(tmp_path: Path) -> None:
    """Names in a dataset are no keys of the file."""
    found, ratio, observations = fitted()
    odd = dataclasses.replace(observations, label=f'{observations.label}\nkind: netns\n# "b", \\c')
    calibrating.save_testbed(tmp_path / "made.yaml", found, ratio, odd)
    settings = load({"sweep": "smoke", "testbed": str(tmp_path / "made.yaml")}, ROOT).testbed
    rate = settings.parameters.core_rate_destination
    assert rate.value == pytest.approx(found.values["core_rate_destination"], rel=1e-3)
    assert rate.source.startswith('fitted to sweep made-up, measured on netns kind: netns # "b", \\c, ')
    for name, reason in found.reasons.items():
        assert reason in getattr(settings.parameters, name).source


def test_values_left_out_are_predicted_by_what_the_others_say() -> None:
    _, ratio, observations = fitted()
    rows = observations.frame["file_size"] == AXES["file_size"][1]
    found = calibrating.left_out(observations.take(rows.to_numpy()), ratio)
    inside = found[~found["extrapolated"]]
    assert set(inside["left_out"]) == {"cores=0.5", "rtt=20", "streams=4", "streams=16"}
    assert np.median(np.abs(np.log(inside["ratio"]))) < 0.1


def test_nothing_is_fitted_to_cells_with_disks_or_to_simulated_ones() -> None:
    with pytest.raises(calibrating.CalibrationError, match="every cell uses a disk"):
        calibrating.observed(summary().assign_coords(layer="disk_to_disk", tool="curl"))
    with pytest.raises(calibrating.CalibrationError, match="simulated"):
        calibrating.observed(summary().assign_attrs(testbed_kind="simulation"))
