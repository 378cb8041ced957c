"""Parallel streams under loss, by Hacker, Athey and Noble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tpcsweep.models.base import (
    BACKGROUND,
    BASE,
    EFFICIENCY,
    Model,
    Points,
    connections,
    effective_rtt,
    mathis_rate,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _hacker(points: Points, base: float, background: float, efficiency: float) -> NDArray[np.float64]:
    rate = mathis_rate(points, effective_rtt(points, base), background)
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
