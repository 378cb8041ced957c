# SPDX-License-Identifier: Apache-2.0
"""Datasets of blocks whose effects are known: drift between blocks, and luck of each deployment and cell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

STREAMS, RTTS = (1, 4, 16), (5.0, 50.0)


def made_up(
    gains: Mapping[str, float], blocks: int, seed: int, *, many_streams: float = 0.0, luck: float = 0.03
) -> xr.Dataset:
    """Make a dataset of `tuning`, whose values gain as told over their level; `luck` is that of a deployment.

    `many_streams` is the further gain of the last value with 16 streams. Blocks drift by 20 %, and single cells vary by
    2 %. Retransmits are none with the first value, and a Poisson count otherwise.
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
        "retransmits": random.poisson(3.0, shape),
    }
    return xr.Dataset(
        {name: (cells, values) for name, values in figures.items()},
        {"tuning": [*gains], "rtt": [*RTTS], "streams": [*STREAMS], "repetition": range(1, blocks + 1)},
        {"testbed_kind": "netns", "repeat": "deployments"},
    )
