"""Streams limited by their windows, together by the path."""

import numpy as np

from tpcsweep.models.base import BASE, EFFICIENCY, WINDOW, Floats, Model, Points, connections
from tpcsweep.tcp import window_rate


def _window(points: Points, base: float, window: float, efficiency: float) -> Floats:
    rate = window_rate(window * points["tcp_buffer"], points["rtt"] + base)
    return np.minimum(efficiency * points["bandwidth"], connections(points) * rate)


MODEL = Model(
    name="window",
    title="Window limit",
    formula=r"\min\left(\eta C,\; n\,\frac{w B}{R + R_0}\right)",
    source="V. Jacobson, R. Braden, D. Borman, TCP extensions for high performance, RFC 1323, 1992",
    axes=("streams", "tcp_streams", "rtt", "tcp_buffer", "bandwidth"),
    parameters=(BASE, WINDOW, EFFICIENCY),
    function=_window,
)
