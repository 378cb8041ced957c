"""Streams limited by their windows, together by the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tpcsweep.models.base import (
    BASE,
    EFFICIENCY,
    WINDOW,
    Model,
    Points,
    connections,
    effective_rtt,
)
from tpcsweep.tcp import window_rate

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _window(points: Points, base: float, window: float, efficiency: float) -> NDArray[np.float64]:
    rate = window_rate(window * points["tcp_buffer"], effective_rtt(points, base))
    return np.asarray(np.minimum(efficiency * points["bandwidth"], connections(points) * rate))


MODEL = Model(
    name="window",
    title="Window limit",
    formula=r"\min\left(\eta C,\; n\,\frac{w B}{R + R_0}\right)",
    source="V. Jacobson, R. Braden, D. Borman, TCP extensions for high performance, RFC 1323, 1992",
    axes=("streams", "tcp_streams", "rtt", "tcp_buffer", "bandwidth"),
    parameters=(BASE, WINDOW, EFFICIENCY),
    function=_window,
)
