"""The rate of one connection under loss, by Mathis, Semke, Mahdavi and Ott."""

import numpy as np

from tpcsweep.models.base import BACKGROUND, BASE, Floats, Model, Points, mathis_rate


def _mathis(points: Points, base: float, background: float) -> Floats:
    return np.minimum(points["bandwidth"], mathis_rate(points, points["rtt"] + base, background))


MODEL = Model(
    name="mathis",
    title="Mathis, Semke, Mahdavi, Ott",
    formula=r"\min\left(C,\; \frac{\mathrm{MSS}}{R + R_0}\sqrt{\frac{3}{2\,(p + p_0)}}\right)",
    source="M. Mathis, J. Semke, J. Mahdavi, T. Ott, The macroscopic behavior of the TCP congestion avoidance "
    "algorithm, Computer Communication Review 27(3), 1997",
    axes=("rtt", "loss", "mtu", "bandwidth"),
    parameters=(BASE, BACKGROUND),
    function=_mathis,
)
