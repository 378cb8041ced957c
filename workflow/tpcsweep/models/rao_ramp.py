"""Throughput of transfers that first ramp up, by Rao and others."""

import numpy as np

from tpcsweep.models.base import BASE, Floats, Model, Parameter, Points, connections, segment
from tpcsweep.tcp import INITIAL_WINDOW, slow_start, window_rate


def _ramp(points: Points, base: float, rate: float, duration: float) -> Floats:
    rtt = points["rtt"] + base
    start = window_rate(connections(points) * INITIAL_WINDOW * segment(points), rtt)  # in the first RTT
    lasts = 1e3 * duration / rtt  # all that is counted here is in RTTs
    rounds = np.minimum(slow_start(rate, start), lasts)
    return np.asarray((start * np.expm1(rounds * np.log(2)) + rate * (lasts - rounds)) / lasts)


MODEL = Model(
    name="rao_ramp",
    title="Rao: ramp-up and sustained phase",
    formula=r"f\,\bar\theta_R + (1 - f)\,r,\; f = \min\left(1, \frac{T_R}{T}\right),\; "
    r"T_R = (R + R_0) \log_2\left(1 + \frac{r (R + R_0)}{10\,n\,\mathrm{MSS}}\right)",
    source="N. S. V. Rao, Q. Liu, S. Sen, D. Towsley, G. Vardoyan, R. Kettimuthu, I. Foster, TCP throughput "
    "profiles using measurements over dedicated connections, Proc. HPDC, 2017",
    axes=("streams", "tcp_streams", "rtt", "mtu"),
    parameters=(
        BASE,
        Parameter("rate", "Gbit/s", "r: throughput of the sustained phase", 1e-4, 1e4, 1.0, "log"),
        Parameter("duration", "s", "T: time that a connection lasts", 1e-2, 1e4, 1.0, "log", ("rtt",)),
    ),
    function=_ramp,
)
