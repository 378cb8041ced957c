# SPDX-License-Identifier: Apache-2.0
"""How many measurements lie in 95 % intervals that were taken from others of the same law, with luck that is known."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.observations import Observations, observe
from tpcsweep.analysis.models.predictor import Predictor

from tests.support.made_up import RTT, STREAMS, TRUTHS, measured

LAWS = {
    "window": {"rtt": RTT, "streams": STREAMS},
    "usl": {"streams": STREAMS, "cores": [1, 2, 4, 8, 16, 32]},
    "rao_ramp": {"rtt": RTT, "streams": STREAMS[::2]},
    "ranges": {"rtt": RTT, "tcp_streams": [2, 4, 8, 16]},
}
"""What makes the measurements, and over which grid."""

KNOWN_RUNS = 4
SPREAD = 0.15
"""Standard deviation of the logarithm of a run's luck at all points, and of that at each of them besides."""

Fitter = Callable[[Observations], Predictor]


def of_same(law: str, fitter: Fitter, seed: int, outliers: float = 0.0) -> float:
    """Give the share of a second set of three repetitions that lies in the intervals from a first."""
    first, second = (_measured(law, one, outliers) for one in (seed, seed + 100))
    return _inside(fitter(observe(first)), second)


def of_new_run(law: str, fitter: Fitter, seed: int, outliers: float = 0.0, *, told: bool = True) -> float:
    """Give the share of a fifth run that lies in the intervals from four; `told`: which run is which."""
    generator = np.random.default_rng(seed)
    *known, new = (_of_run(law, number, generator, outliers) for number in range(KNOWN_RUNS + 1))
    observations = observe(_together(known) if told else _together(known).drop_vars("run"))
    return _inside(fitter(observations), new.drop_vars("run"))


def _measured(law: str, seed: int, outliers: float) -> xr.Dataset:
    values, _, fixed = TRUTHS[law]
    how = {"noise": 0.08, "repetitions": 3, "seed": seed, "outliers": outliers}
    return measured(MODELS[law], values, LAWS[law], fixed=fixed, **how)


def _of_run(law: str, number: int, generator: np.random.Generator, outliers: float) -> xr.Dataset:
    """Three repetitions, without intervals, of a run that has its own luck: at all points, and at each."""
    ds = _measured(law, int(generator.integers(1 << 30)), outliers)
    points = ds["throughput"].isel(repetition=0, drop=True)
    luck = SPREAD * (generator.standard_normal() + generator.standard_normal(points.shape))
    lucky = ds[["throughput"]] * np.exp(points.copy(data=luck))
    return lucky.assign_attrs(ds.attrs).assign(run=xr.full_like(ds["throughput"], number))


def _together(runs: Sequence[xr.Dataset]) -> xr.Dataset:
    apart = [run.assign_coords(repetition=run["repetition"] + 3 * at) for at, run in enumerate(runs)]
    return xr.concat(apart, "repetition", combine_attrs="override")


def _inside(found: Predictor, measured: xr.Dataset) -> float:
    answer = found.predict(measured)
    inside = (measured.throughput >= answer.throughput_low) & (measured.throughput <= answer.throughput_high)
    return float(inside.mean())
