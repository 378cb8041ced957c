# SPDX-License-Identifier: Apache-2.0
"""Observations whose truth is known: a model's own throughput over a grid, with noise; and results with fits."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from tpcsweep.analysis.models.fit import fit
from tpcsweep.analysis.models.formula import Model, Points, with_defaults
from tpcsweep.analysis.models.formulas import MODELS
from tpcsweep.analysis.models.observations import observe
from tpcsweep.analysis.models.saved_fits import FORMAT
from tpcsweep.common.files import checksum
from tpcsweep.data import folding
from tpcsweep.sweeps.parameters import Value

from tests.support import synthetic

NOISE = 0.05
RTT = [0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0]
STREAMS = [1, 2, 4, 8, 16, 32, 64]
LOSS = [1e-5, 1e-4, 1e-3, 1e-2]

# For each model a truth, and a grid that determines all of its parameters.
TRUTHS: dict[str, tuple[dict[str, float], dict[str, Sequence[float]], dict[str, float]]] = {
    "window": (
        {"base": 0.5, "window": 0.4, "efficiency": 0.8},
        {"rtt": RTT, "streams": STREAMS},
        {"bandwidth": 10.0, "tcp_buffer": 2.0**22},
    ),
    "mathis": (
        {"base": 0.5, "background": 1e-4},
        {"rtt": RTT, "loss": LOSS},
        {"bandwidth": 100.0, "mtu": 9000.0},
    ),
    "pftk": (
        {"base": 0.5, "window": 0.1, "background": 1e-4},
        {"rtt": RTT, "loss": [0.0, *LOSS]},
        {"bandwidth": 100.0, "mtu": 9000.0, "tcp_buffer": 2.0**22},
    ),
    "hacker": (
        {"base": 0.5, "background": 1e-4, "efficiency": 0.8},
        {"rtt": RTT, "streams": STREAMS},
        {"bandwidth": 10.0, "mtu": 9000.0},
    ),
    "lu": ({"a": 0.02, "b": 3.0}, {"streams": STREAMS}, {}),
    "yildirim": ({"a": 0.02, "skew": -0.4, "c": 3.0}, {"streams": [*STREAMS, 3, 6, 12, 24, 48]}, {}),
    "yildirim_newton": ({"a": 0.01, "exponent": 2.4, "b": 3.0}, {"streams": [*STREAMS, 3, 6, 12, 24, 48]}, {}),
    "usl": (
        {"rate": 0.5, "streams_contention": 0.1, "streams_coherency": 2e-3, "cores_contention": 0.05,
         "cores_coherency": 5e-3, "origins_contention": 0.2, "origins_coherency": 0.05},
        {"streams": STREAMS, "cores": [1, 2, 4, 8, 16, 32], "origins": [1, 2, 3, 4, 6]},
        {},
    ),
    "rao_sigmoid": ({"rate": 9.0, "steepness": 0.06, "middle": 60.0}, {"rtt": [3.0, 30.0, 60.0, 90.0, *RTT]}, {}),
    "rao_ramp": ({"base": 0.5, "rate": 8.0, "duration": 1.0}, {"rtt": RTT, "streams": STREAMS}, {"mtu": 9000.0}),
    "ranges": (
        {"rate": 3.0, "idle": 2.0, "efficiency": 0.8},
        {"rtt": RTT, "tcp_streams": [2, 4, 8, 16]},
        {"bandwidth": 20.0, "file_size": 2.0**30},
    ),
    "combined": (
        {"base": 0.5, "window": 0.3, "background": 1e-5, "handshakes": 6.0, "redirection": 12.0, "setup": 0.1,
         "per_core": 2.0, "instance": 6.0, "contention": 0.1, "crowding": 0.01, "coherency": 0.02, "client": 25.0,
         "efficiency": 0.9, "sharpness": 5.0},
        {"rtt": [0.0, 20.0, 80.0], "streams": [1, 4, 16, 64], "cores": [1.0, 4.0, 16.0], "origins": [1, 4],
         "file_size": [2.0**24, 2.0**30], "loss": [0.0, 1e-4]},
        {"bandwidth": 10.0, "tcp_buffer": 2.0**24, "mtu": 9000.0},
    ),
    "constant": ({"rate": 2.0}, {"streams": STREAMS}, {}),
}  # fmt: skip


def measured(
    model: Model,
    values: Mapping[str, float],
    axes: Mapping[str, Sequence[float]],
    *,
    fixed: Mapping[str, float] | None = None,
    noise: float = NOISE,
    repetitions: int = 1,
    outliers: float = 0.0,
    seed: int = 0,
) -> xr.Dataset:
    """Give a dataset with what the model says of every point of a grid, times normal noise, with its interval.

    A share of the cells are outliers: they reach a fifth to seven tenths of that.
    """
    coordinates = {name: [*values] for name, values in axes.items()}
    coordinates["repetition"] = [*range(1, repetitions + 1)]
    template = xr.DataArray(np.zeros([*map(len, coordinates.values())]), coordinates)
    points: Points = with_defaults(
        {name: template[name].broadcast_like(template).values.ravel().astype(float) for name in axes}
        | {name: np.full(template.size, value) for name, value in (fixed or {}).items()}
    )
    truth = model(points, values).reshape(template.shape)
    generator = np.random.default_rng(seed)
    throughput = truth * (1 + noise * generator.standard_normal(truth.shape))
    stalled = generator.random(truth.shape) < outliers
    throughput = throughput * np.where(stalled, generator.uniform(0.2, 0.7, truth.shape), 1.0)
    content = synthetic.with_ends(throughput, 1.96 * noise * truth)
    ds = xr.Dataset({name: (template.dims, array) for name, array in content.items()}, template.coords)
    about = {"sweep": "made-up", "testbed": "netns", "testbed_kind": "netns", "measurement_confidence": 0.95}
    return ds.assign_coords(fixed or {}).assign_attrs(about)


def write_results(project: Path, axes: Mapping[str, Sequence[Value]]) -> Path:
    """Write a folder results/demo with the dataset of a made-up sweep, and with fits of one model to it."""
    demo = project / "results/demo"
    folding.write(folding.fold(synthetic.write_sweep(project, axes), axes), demo / "dataset.nc")
    fitted = fit(MODELS["window"], observe(xr.load_dataset(demo / "dataset.nc")), resamples=5)
    choice = {"best": "window", "formula": "window", "problems": [], "scores": []}
    content = {"format": FORMAT, "dataset": checksum(demo / "dataset.nc"), "label": "made up"}
    content |= {"fits": {"window": fitted.to_dict()}, "choice": choice, "learned": {}}
    (demo / "models.json").write_text(json.dumps(content))
    return demo
