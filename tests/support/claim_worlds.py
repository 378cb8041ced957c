# SPDX-License-Identifier: Apache-2.0
"""Made-up datasets for claims, in which levels and noise are known."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from tpcsweep.analysis.claims.claim import Verdict, judge_claim
from tpcsweep.analysis.claims.claim_cells import claim_cells
from tpcsweep.analysis.claims.judging import CLAIMS
from tpcsweep.data.labels import about_flags

from tests.support.synthetic import with_ends

FIXED: dict[str, Any] = {"origins": 1, "cores": 4.0, "tool": "gfal-copy", "endpoint": "redirector"}
FIXED |= {"rtt": 10.0, "bandwidth": 1000.0, "loss": 0.0, "mtu": 9000, "tcp_buffer": 8 * 2**20}
FIXED |= {"congestion_control": "cubic", "tcp_streams": 1, "streams": 4}
Formula = float | str
"""Of the parameters of a cell, in Python."""
FIGURES: dict[str, Formula] = {"duration": 20.0, "throughput_max": "float('nan')", "source_cpu": 0.1}
FIGURES |= {"destination_cpu": "0.95 * cores", "flags": 0, "fails": False}


def world(
    axes: Mapping[str, Sequence[Any]],
    level: Formula,
    noise: float = 0.01,
    seed: int = 1,
    stated: float | None = None,
    kind: str = "netns",
    **figures: Formula,
) -> xr.Dataset:
    """Return a dataset whose cells lie around `level` Gbit/s, with intervals that say so.

    noise: the relative standard error of a cell; stated: that of its interval, if another. Axes and figures that are
    not given have the values in FIXED and FIGURES.
    """
    axes = {"repetition": [1], **axes}
    places = itertools.product(*axes.values())
    points = [FIXED | dict(zip(axes, values, strict=True)) for values in places]
    formulas = FIGURES | {"throughput": level} | figures
    cells = {name: np.array([eval(str(one), {}, at) for at in points]) for name, one in formulas.items()}
    failed = cells.pop("fails")
    throughput = cells["throughput"] * np.exp(noise * np.random.default_rng(seed).normal(size=len(points)))
    throughput[failed] = np.nan
    half = 1.96 * (noise if stated is None else stated) * throughput
    cells |= with_ends(throughput, half) | {"status": np.where(failed, 2, 1).astype(np.int8)}
    shape = [len(values) for values in axes.values()]
    ds = xr.Dataset(
        {name: (list(axes), values.reshape(shape)) for name, values in cells.items()},
        {**{name: ((), value) for name, value in FIXED.items()}, **{name: list(axes[name]) for name in axes}},
        {"testbed_kind": kind, "measurement_confidence": 0.95},
    )
    ds["flags"].attrs |= about_flags()
    return ds


STREAMS = {"streams": [1, 4, 16, 64]}
TWO_CORES = {"cores": [1.0, 2.0], "rtt": [2.0, 100.0]}
NULLS = {
    "chep2023.streams_peak": {**STREAMS, **TWO_CORES},
    "chep2023.origins_help": {"origins": [1, 2], "streams": [1, 4], "rtt": [2.0, 100.0]},
    "chep2024.small_rtt_peak": {**STREAMS, "rtt": [2.0, 20.0, 100.0]},
    "chep2024.short_rtt_cores": {**TWO_CORES, "origins": [1, 2, 4], "streams": [1, 4]},
}
"""Axes of flat data, on which claims that need an effect must not hold."""


def verdict(name: str, ds: xr.Dataset) -> Verdict:
    return judge_claim(CLAIMS[name], ds, claim_cells(ds))
