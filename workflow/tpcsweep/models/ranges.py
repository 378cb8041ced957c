# SPDX-License-Identifier: Apache-2.0
"""Pulls over several connections, each of which asks for one range after another."""

import numpy as np

from tpcsweep.models.base import EFFICIENCY, Floats, Model, Parameter, Points, connections
from tpcsweep.variables import GBIT_PER_MS

RANGE = 16 * 2.0**20
"""Bytes that XRootD asks for at a time where a transfer has more than one connection."""


def _ranges(points: Points, rate: float, idle: float, efficiency: float) -> Floats:
    asked = np.where(points["tcp_streams"] > 1, RANGE, points["file_size"])
    waiting = idle * points["rtt"] / (GBIT_PER_MS * asked)  # s/Gbit
    return np.minimum(efficiency * points["bandwidth"], connections(points) / (1 / rate + waiting))


MODEL = Model(
    name="ranges",
    title="Serial ranges of multi-stream pulls",
    formula=r"\min\left(\eta C,\; \frac{n}{1/r + k R / B}\right),\; "
    r"B = 16\,\mathrm{MiB}\text{ for several connections a transfer, else the file}",
    source="XRootD's XrdTpcMultistream, as observed with 5.5.3, 2022; the bound is that of one request a round trip",
    axes=("streams", "tcp_streams", "rtt", "file_size", "bandwidth"),
    parameters=(
        Parameter(
            "rate", "Gbit/s", "r: throughput of a connection that does not wait", 1e-3, 1e3, 1.0, "log"
        ),
        Parameter("idle", "1", "k: RTTs without data for each request", 0.1, 100.0, 1.0, "log", ("rtt",)),
        EFFICIENCY,
    ),
    function=_ranges,
)
