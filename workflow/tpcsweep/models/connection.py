# SPDX-License-Identifier: Apache-2.0
"""Limits of TCP connections: their windows, and loss."""

import numpy as np

from tpcsweep.models.base import (
    BACKGROUND,
    BASE,
    EFFICIENCY,
    WINDOW,
    Floats,
    Model,
    Points,
    connections,
    mathis_rate,
    segment,
)
from tpcsweep.tcp import window_rate

_DELAYED = 2.0  # packets that one acknowledgement is for
_LEAST_TIMEOUT = 200.0  # ms by which Linux waits longer than the RTT before it takes a packet for lost


def _window(points: Points, base: float, window: float, efficiency: float) -> Floats:
    rate = window_rate(window * points["tcp_buffer"], points["rtt"] + base)
    return np.minimum(efficiency * points["bandwidth"], connections(points) * rate)


def _mathis(points: Points, base: float, background: float) -> Floats:
    return np.minimum(points["bandwidth"], mathis_rate(points, points["rtt"] + base, background))


def _pftk(points: Points, base: float, window: float, background: float) -> Floats:
    rtt = points["rtt"] + base
    loss = np.minimum(points["loss"] + background, 1.0)
    recovery = rtt * np.sqrt(2 * _DELAYED * loss / 3)
    timeouts = np.minimum(1.0, 3 * np.sqrt(3 * _DELAYED * loss / 8)) * loss * (1 + 32 * loss**2)
    rate = window_rate(segment(points), recovery + (rtt + _LEAST_TIMEOUT) * timeouts)
    ceiling = window_rate(window * points["tcp_buffer"], rtt)
    return np.minimum(points["bandwidth"], np.minimum(rate, ceiling))


def _hacker(points: Points, base: float, background: float, efficiency: float) -> Floats:
    rate = mathis_rate(points, points["rtt"] + base, background)
    return np.minimum(efficiency * points["bandwidth"], connections(points) * rate)


MODELS = (
    Model(
        name="window",
        title="Window limit",
        formula=r"\min\left(\eta C,\; n\,\frac{w B}{R + R_0}\right)",
        source="V. Jacobson, R. Braden, D. Borman, TCP extensions for high performance, RFC 1323, 1992",
        axes=("streams", "tcp_streams", "rtt", "tcp_buffer", "bandwidth"),
        parameters=(BASE, WINDOW, EFFICIENCY),
        function=_window,
    ),
    Model(
        name="mathis",
        title="Mathis, Semke, Mahdavi, Ott",
        formula=r"\min\left(C,\; \frac{\mathrm{MSS}}{R + R_0}\sqrt{\frac{3}{2\,(p + p_0)}}\right)",
        source="M. Mathis, J. Semke, J. Mahdavi, T. Ott, The macroscopic behavior of the TCP congestion avoidance "
        "algorithm, Computer Communication Review 27(3), 1997",
        axes=("rtt", "loss", "mtu", "bandwidth"),
        parameters=(BASE, BACKGROUND),
        function=_mathis,
    ),
    Model(
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
    ),
    Model(
        name="hacker",
        title="Hacker, Athey, Noble",
        formula=r"\min\left(\eta C,\; n\,\frac{\mathrm{MSS}}{R + R_0}\sqrt{\frac{3}{2\,(p + p_0)}}\right)",
        source="T. J. Hacker, B. D. Athey, B. Noble, The end-to-end performance effects of parallel TCP sockets on "
        "a lossy wide-area network, Proc. IPDPS, 2002",
        axes=("streams", "tcp_streams", "rtt", "loss", "mtu", "bandwidth"),
        parameters=(BASE, BACKGROUND, EFFICIENCY),
        function=_hacker,
    ),
)
