"""Observations whose truth is known: a model's own throughput over a grid, with noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from tpcsweep.models import Model
from tpcsweep.models.base import Points
from tpcsweep.models.observations import complete

NOISE = 0.05


def measured(
    model: Model,
    values: Mapping[str, float],
    axes: Mapping[str, Sequence[float]],
    *,
    fixed: Mapping[str, float] | None = None,
    noise: float = NOISE,
    repetitions: int = 1,
    seed: int = 0,
) -> xr.Dataset:
    """Give a dataset with what the model says of every point of a grid, times normal noise, with its interval."""
    sizes = {**{name: len(points) for name, points in axes.items()}, "repetition": repetitions}
    coordinates = {**axes, "repetition": range(1, repetitions + 1)}
    template = xr.DataArray(
        np.zeros(tuple(sizes.values())), {name: list(points) for name, points in coordinates.items()}
    )
    points: Points = complete(
        {name: template[name].broadcast_like(template).values.ravel().astype(float) for name in axes}
        | {name: np.full(template.size, value) for name, value in (fixed or {}).items()}
    )
    truth = model(points, values).reshape(template.shape)
    throughput = truth * (1 + noise * np.random.default_rng(seed).standard_normal(truth.shape))
    half = 1.96 * noise * truth
    content = {
        "throughput": throughput,
        "throughput_low": throughput - half,
        "throughput_high": throughput + half,
    }
    ds = xr.Dataset({name: (template.dims, array) for name, array in content.items()}, template.coords)
    about = {"sweep": "made-up", "testbed": "netns", "testbed_kind": "netns", "measurement_confidence": 0.95}
    return ds.assign_coords(fixed or {}).assign_attrs(about)
