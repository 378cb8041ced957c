"""The rate of one connection under loss, with timeouts, by Padhye, Firoiu, Towsley and Kurose."""

import numpy as np

from tpcsweep.models.base import BACKGROUND, BASE, WINDOW, Floats, Model, Points, segment
from tpcsweep.tcp import window_rate

_DELAYED = 2.0  # packets that one acknowledgement is for
_LEAST_TIMEOUT = 200.0  # ms by which Linux waits longer than the RTT before it takes a packet for lost


def _pftk(points: Points, base: float, window: float, background: float) -> Floats:
    rtt = points["rtt"] + base
    loss = np.minimum(points["loss"] + background, 1.0)
    recovery = rtt * np.sqrt(2 * _DELAYED * loss / 3)
    timeouts = np.minimum(1.0, 3 * np.sqrt(3 * _DELAYED * loss / 8)) * loss * (1 + 32 * loss**2)
    rate = window_rate(segment(points), recovery + (rtt + _LEAST_TIMEOUT) * timeouts)
    ceiling = window_rate(window * points["tcp_buffer"], rtt)
    return np.minimum(points["bandwidth"], np.minimum(rate, ceiling))


MODEL = Model(
    name="pftk",
    title="Padhye, Firoiu, Towsley, Kurose",
    formula=r"\min\left(C,\; \frac{w B}{R'},\; \frac{\mathrm{MSS}}{R'\sqrt{2bp'/3} + T_0 "
    r"\min\left(1, 3\sqrt{3bp'/8}\right) p'\,(1 + 32p'^2)}\right),\; R' = R + R_0,\; p' = p + p_0,\; "
    r"b = 2,\; T_0 = R' + 200\,\mathrm{ms}",
    source="J. Padhye, V. Firoiu, D. Towsley, J. Kurose, Modeling TCP throughput: a simple model and its "
    "empirical validation, Proc. SIGCOMM, 1998",
    axes=("rtt", "loss", "mtu", "tcp_buffer", "bandwidth"),
    parameters=(BASE, WINDOW, BACKGROUND),
    function=_pftk,
)
