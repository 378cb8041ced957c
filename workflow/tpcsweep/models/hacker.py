"""Parallel streams under loss, by Hacker, Athey and Noble."""

import numpy as np

from tpcsweep.models.base import BACKGROUND, BASE, EFFICIENCY, Floats, Model, Points, connections, mathis_rate


def _hacker(points: Points, base: float, background: float, efficiency: float) -> Floats:
    rate = mathis_rate(points, points["rtt"] + base, background)
    return np.minimum(efficiency * points["bandwidth"], connections(points) * rate)


MODEL = Model(
    name="hacker",
    title="Hacker, Athey, Noble",
    formula=r"\min\left(\eta C,\; n\,\frac{\mathrm{MSS}}{R + R_0}\sqrt{\frac{3}{2\,(p + p_0)}}\right)",
    source="T. J. Hacker, B. D. Athey, B. Noble, The end-to-end performance effects of parallel TCP sockets on "
    "a lossy wide-area network, Proc. IPDPS, 2002",
    axes=("streams", "tcp_streams", "rtt", "loss", "mtu", "bandwidth"),
    parameters=(BASE, BACKGROUND, EFFICIENCY),
    function=_hacker,
)
