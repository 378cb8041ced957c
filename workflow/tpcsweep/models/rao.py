# SPDX-License-Identifier: Apache-2.0
"""Throughput over RTT, by Rao and others."""

import numpy as np

from tpcsweep.models.base import BASE, Floats, Model, Parameter, Points, connections, segment
from tpcsweep.tcp import INITIAL_WINDOW, slow_start, window_rate

_SOURCE = (
    "N. S. V. Rao, Q. Liu, S. Sen, D. Towsley, G. Vardoyan, R. Kettimuthu, I. Foster, TCP throughput "
    "profiles using measurements over dedicated connections, Proc. HPDC, 2017"
)


def _sigmoid(points: Points, rate: float, steepness: float, middle: float) -> Floats:
    return rate / (1 + np.exp(np.clip(steepness * (points["rtt"] - middle), -60, 60)))


def _ramp(points: Points, base: float, rate: float, duration: float) -> Floats:
    rtt = points["rtt"] + base
    start = window_rate(connections(points) * INITIAL_WINDOW * segment(points), rtt)  # in the first RTT
    lasts = 1e3 * duration / rtt  # all that is counted here is in RTTs
    rounds = np.minimum(slow_start(rate, start), lasts)
    return np.asarray((start * np.expm1(rounds * np.log(2)) + rate * (lasts - rounds)) / lasts)


MODELS = (
    Model(
        name="rao_sigmoid",
        title="Rao: concave-convex RTT profile",
        formula=r"r\left(1 - \frac{1}{1 + e^{-a (R - R_T)}}\right)",
        source=f"{_SOURCE} (one of their pair of sigmoids)",
        axes=("rtt",),
        parameters=(
            Parameter("rate", "Gbit/s", "twice the throughput at the transition", 1e-4, 1e4, 1.0, "log"),
            Parameter(
                "steepness", "1/ms", "a: how sharp the transition is", 1e-4, 10.0, 0.05, "log", ("rtt",)
            ),
            Parameter(
                "middle", "ms", "R_T: where concave becomes convex", -200.0, 400.0, 50.0, "linear", ("rtt",)
            ),
        ),
        function=_sigmoid,
    ),
    Model(
        name="rao_ramp",
        title="Rao: ramp-up and sustained phase",
        formula=r"f\,\bar\theta_R + (1 - f)\,r,\; f = \min\left(1, \frac{T_R}{T}\right),\; "
        r"T_R = (R + R_0) \log_2\left(1 + \frac{r (R + R_0)}{10\,n\,\mathrm{MSS}}\right)",
        source=_SOURCE,
        axes=("streams", "tcp_streams", "rtt", "mtu"),
        parameters=(
            BASE,
            Parameter("rate", "Gbit/s", "r: throughput of the sustained phase", 1e-4, 1e4, 1.0, "log"),
            Parameter("duration", "s", "T: time that a connection lasts", 1e-2, 1e4, 1.0, "log", ("rtt",)),
        ),
        function=_ramp,
    ),
)
