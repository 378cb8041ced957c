# SPDX-License-Identifier: Apache-2.0
"""Datasets of any size, made at once: for what must bear 10⁴ cells."""

from pathlib import Path

import numpy as np
import xarray as xr
from tpcsweep.data import folding
from tpcsweep.data.variables import LIMITS, TRANSFERS

from tests.support.synthetic import write_sweep

SAMPLES = 200
TRANSFERS_EACH = 8


def large(folder: Path, streams: int = 100, rtts: int = 100) -> tuple[xr.Dataset, xr.Dataset, xr.Dataset]:
    """Give summary, samples and transfers of so many streams × RTTs, as if measured for 20 s each."""
    one = {"rtt": [1.0], "streams": [1], "repetition": [1]}
    folded = folding.fold(write_sweep(folder, one), one)
    axes = {"rtt": np.arange(1.0, rtts + 1), "streams": np.arange(1, streams + 1), "repetition": [1]}
    summary = folded.summary.sel(rtt=[1.0] * rtts, streams=[1] * streams).assign_coords(axes).copy(deep=True)
    random = np.random.default_rng(1)
    shape = summary.throughput.shape
    smooth = np.minimum(0.94, summary.streams * 0.05 / np.sqrt(summary.rtt)).transpose("rtt", "streams")
    rate = smooth.values[..., None] * (1 + 0.02 * random.normal(size=shape))
    for name, factor in (("throughput", 1.0), ("throughput_low", 0.97), ("throughput_high", 1.03)):
        summary[name][:] = rate * factor
    summary["flags"][:] = random.integers(0, 2, shape)
    summary["limit"][:] = random.choice(list(LIMITS)[:4], shape)
    for name in ("source_cpu", "destination_cpu", "client_cpu", "retransmits", "rtt_loaded"):
        summary[name][:] = random.random(shape) * 10
    time = np.arange(1, SAMPLES + 1) / 10
    goodput = (rate[..., None] * (1 + 0.1 * random.normal(size=(*shape, SAMPLES)))).astype(np.float32)
    samples = xr.Dataset({"goodput": ((*summary.throughput.dims, "time"), goodput)}, {**axes, "time": time})
    count = summary.throughput.size * TRANSFERS_EACH
    rows = {name: ("transfer", random.random(count)) for name in TRANSFERS}
    rows |= {"cell": ("transfer", np.repeat(np.arange(summary.throughput.size), TRANSFERS_EACH))}
    rows |= {name: ("transfer", np.ones(count, np.int64)) for name in ("stream", "number", "ok")}
    rows |= {"message": ("transfer", np.full(count, "", dtype=object))}
    return summary, samples, xr.Dataset(rows)
