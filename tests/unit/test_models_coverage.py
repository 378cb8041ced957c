# SPDX-License-Identifier: Apache-2.0
"""Intervals of one more measurement hold as many as they say, for laws that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import xarray as xr
from tpcsweep.models import MODELS, Observations, Predictor, fit, fit_process, observe

from tests.support.made_up import RTT, STREAMS, TRUTHS, measured

LAWS = {
    "window": {"rtt": RTT, "streams": STREAMS},
    "usl": {"streams": STREAMS, "cores": [1, 2, 4, 8, 16, 32]},
    "rao_ramp": {"rtt": RTT, "streams": STREAMS[::2]},
    "ranges": {"rtt": RTT, "tcp_streams": [2, 4, 8, 16]},
}

Fitter = Callable[[Observations], Predictor]


def coverage(law: str, fitter: Fitter, seed: int, **how: float) -> float:
    """The share of a second set of measurements that lies in the intervals that were taken from a first."""
    values, _, fixed = TRUTHS[law]
    first, second = (
        measured(MODELS[law], values, LAWS[law], fixed=fixed, noise=0.08, repetitions=3, seed=one, **how)
        for one in (seed, seed + 100)
    )
    found = fitter(observe(first)).predict(second)
    inside = (second.throughput >= found.throughput_low) & (second.throughput <= found.throughput_high)
    return float(inside.mean())


@pytest.mark.parametrize("outliers", [0.0, 0.04])
@pytest.mark.parametrize("law", LAWS)
def test_the_law_that_made_the_measurements(law: str, outliers: float) -> None:
    def fitter(observations: Observations) -> Predictor:
        return fit(MODELS[law], observations, resamples=40)

    assert 0.93 <= np.mean([coverage(law, fitter, seed, outliers=outliers) for seed in range(8)]) <= 0.97


@pytest.mark.parametrize("outliers", [0.0, 0.04])
@pytest.mark.parametrize("law", LAWS)
def test_a_process_that_knows_no_law(law: str, outliers: float) -> None:
    found = [coverage(law, fit_process, seed, outliers=outliers) for seed in range(8)]
    assert 0.93 <= np.mean(found) <= 0.97


def of_run(law: str, number: int, generator: np.random.Generator, spread: float) -> xr.Dataset:
    """Three repetitions, without intervals, of a run that has its own luck: at all points, and at each."""
    values, _, fixed = TRUTHS[law]
    seed = int(generator.integers(1 << 30))
    ds = measured(MODELS[law], values, LAWS[law], fixed=fixed, noise=0.08, repetitions=3, seed=seed)
    points = ds["throughput"].isel(repetition=0, drop=True)
    luck = spread * (generator.standard_normal() + generator.standard_normal(points.shape))
    return xr.Dataset(
        {"throughput": ds["throughput"] * np.exp(points.copy(data=luck))}, attrs=ds.attrs
    ).assign(run=xr.full_like(ds["throughput"], number))


def together(runs: Sequence[xr.Dataset]) -> xr.Dataset:
    renumbered = [
        run.assign_coords(repetition=run["repetition"] + 3 * place) for place, run in enumerate(runs)
    ]
    return xr.concat(renumbered, "repetition", combine_attrs="override")


def of_new_run(law: str, seed: int, spread: float, *, told: bool = True) -> float:
    """The share of a fifth run's measurements that lies in the intervals from four."""
    generator = np.random.default_rng(seed)
    *known, new = (of_run(law, number, generator, spread) for number in range(5))
    observations = observe(together(known) if told else together(known).drop_vars("run"))
    found = fit(MODELS[law], observations, resamples=40).predict(new.drop_vars("run"))
    inside = (new.throughput >= found.throughput_low) & (new.throughput <= found.throughput_high)
    return float(inside.mean())


@pytest.mark.parametrize("law", ["window", "rao_ramp"])
def test_a_run_that_was_not_seen(law: str) -> None:
    told = np.mean([of_new_run(law, seed, 0.15) for seed in range(6)])
    untold = np.mean([of_new_run(law, seed, 0.15, told=False) for seed in range(6)])
    assert 0.93 <= told <= 0.99
    assert untold < told - 0.01
