# SPDX-License-Identifier: Apache-2.0
"""Datasets of blocks whose effects are known: drift between blocks, and luck of each deployment and cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xarray as xr
from tpcsweep.data import folding
from tpcsweep.sweeps.designs import screening_runs

from tests.support import synthetic

STREAMS, RTTS = (1, 4, 16), (5.0, 50.0)


def made_up(
    gains: Mapping[str, float], blocks: int, seed: int, *, many_streams: float = 0.0, luck: float = 0.03
) -> xr.Dataset:
    """Make a dataset of `tuning`, whose values gain as told over their level; `luck` is that of a deployment.

    `many_streams` is the further gain of the last value with 16 streams. Blocks drift by 20 %, and single cells vary by
    2 %. Retransmits are a Poisson count around 30.
    """
    random = np.random.default_rng(seed)
    shape = (len(gains), len(RTTS), len(STREAMS), blocks)
    logs = np.log1p(np.array([*gains.values()]))[:, None, None, None] + random.normal(0, 0.02, shape)
    logs[-1, :, -1] += np.log1p(many_streams)
    logs += random.normal(0, luck, (len(gains), len(RTTS), 1, blocks)) + random.normal(0, 0.2, blocks)
    throughput = np.exp(logs) * np.array([1.0, 3.0, 4.0])[:, None]
    cells = ("tuning", "rtt", "streams", "repetition")
    cpu = throughput * 1.5 * np.exp(random.normal(0, 0.02, shape))
    figures = {
        "throughput": throughput,
        "source_cpu": cpu,
        "destination_cpu": cpu / 2,
        "duration": np.full(shape, 30.0),
        "retransmits": random.poisson(30.0, shape),
    }
    return xr.Dataset(
        {name: (cells, values) for name, values in figures.items()},
        {"tuning": [*gains], "rtt": [*RTTS], "streams": [*STREAMS], "repetition": range(1, blocks + 1)},
        {"testbed_kind": "netns", "repeat": "deployments"},
    )


def screened(gains: Mapping[str, float], blocks: int, seed: int, *, interaction: float = 0.0) -> xr.Dataset:
    """Make a dataset of a design for screening over settings with values v0 and v1, and `gains` of the latter.

    `interaction` is the gain of the first two settings whose values are equal over unequal ones.
    """
    random = np.random.default_rng(seed)
    names, streams = [*gains], [1, 8]
    shape = (*(2 for _ in names), len(streams), blocks)
    throughput, drift = np.full(shape, np.nan), random.normal(0, 0.2, blocks)
    for run in screening_runs(len(names)):
        level = sum(np.log1p(gain) * at for gain, at in zip(gains.values(), run, strict=True))
        level += np.log1p(interaction) * (run[0] == run[1])
        luck = random.normal(0, 0.03, blocks) + random.normal(0, 0.02, (len(streams), blocks))
        throughput[run] = np.exp(level + drift + luck)
    values = {name: ["v0", "v1"] for name in names}
    return xr.Dataset(
        {"throughput": ((*names, "streams", "repetition"), throughput)},
        {**values, "streams": streams, "repetition": range(1, blocks + 1)},
        {"testbed_kind": "netns", "repeat": "deployments", "design": "screening"},
    )


def written(folder: Path, summary: xr.Dataset, order: str = "blocks", **attributes: str) -> Path:
    """Write a dataset of blocks as the workflow does, with the throughput of a summary; NaN: not measured."""
    axes = {str(name): summary[name].values.tolist() for name in ("tuning", "rtt", "streams", "repetition")}
    folded = folding.fold(synthetic.write_sweep(folder, axes), axes)
    folded.summary["throughput"][:] = summary["throughput"].values
    folded.summary["status"][:] = np.where(summary["throughput"].isnull(), 0, folded.summary["status"])
    folded.summary.attrs |= {"repeat": "deployments", "order": order, **attributes}
    folding.write(folded, folder / "dataset.nc")
    return folder / "dataset.nc"
