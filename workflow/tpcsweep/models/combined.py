# SPDX-License-Identifier: Apache-2.0
"""All limits at once: the soft minimum of what streams, origins, client and path can do."""

from dataclasses import replace
from functools import reduce

import numpy as np

from tpcsweep.models.base import (
    BACKGROUND,
    BASE,
    EFFICIENCY,
    WINDOW,
    Floats,
    Model,
    Parameter,
    Points,
    mathis_rate,
    segment,
)
from tpcsweep.models.ranges import RANGE
from tpcsweep.tcp import INITIAL_WINDOW, slow_start, window_rate
from tpcsweep.variables import GBIT_PER_MS


def _combined(
    points: Points,
    base: float,
    window: float,
    background: float,
    handshakes: float,
    redirection: float,
    setup: float,
    per_core: float,
    instance: float,
    contention: float,
    crowding: float,
    coherency: float,
    client: float,
    efficiency: float,
    sharpness: float,
) -> Floats:
    rtt = points["rtt"] + base
    streams, origins, inside = points["streams"], points["origins"], points["tcp_streams"]
    path = efficiency * points["bandwidth"]
    # As N cores by the Universal Scalability Law: beyond 1/√γ of them, one more takes more than it brings.
    each = points["cores"] / origins
    beyond = np.where(np.isfinite(each), np.maximum(each - 1, 0.0), 0.0)
    origin = 1 / (1 / (per_core * each) + 1 / instance + coherency * beyond / per_core)
    # What one transfer reaches once it runs: of several connections each waits between its ranges.
    connection = np.minimum(
        window_rate(window * points["tcp_buffer"], rtt), mathis_rate(points, rtt, background)
    )
    waiting = np.where(inside > 1, rtt / (GBIT_PER_MS * RANGE), 0.0)
    alone = np.minimum(inside / (1 / connection + waiting), np.minimum(path, origin))
    # What a file takes besides: the client's start, round trips of handshakes, and those of slow start.
    first = window_rate(inside * INITIAL_WINDOW * segment(points), rtt)
    before = handshakes + np.where(origins > 1, redirection, 0.0)
    pause = 1e3 * setup + rtt * (before + slow_start(alone, first))
    demand = streams / (1 / alone + pause / (GBIT_PER_MS * points["file_size"]))
    # Streams that fall on origins by chance leave some without any.
    busy = origins * -np.expm1(streams * np.log1p(-1 / np.maximum(origins, 1 + 1e-9)))
    servers = busy * origin
    overload = np.maximum(demand / servers - 1, 0.0)
    crowd = np.maximum(streams / origins - 1, 0.0)
    files = client * points["file_size"] * GBIT_PER_MS * 1e-3
    return soft_minimum(
        (demand, servers / (1 + contention * overload + crowding * crowd), path, files), sharpness
    )


def soft_minimum(limits: tuple[Floats, ...], sharpness: float) -> Floats:
    """Give (Σ limit^-q)^(-1/q): the least of the limits where they differ much, less where they are alike."""
    least = reduce(np.minimum, limits)
    return np.asarray(least * sum((least / limit) ** sharpness for limit in limits) ** (-1 / sharpness))


def _rtts(name: str, description: str, axis: str) -> Parameter:
    return Parameter(name, "1", description, 0.0, 60.0, 6.0, "linear", ("rtt", axis), 0.0)


MODEL = Model(
    name="combined",
    title="Soft minimum of all limits",
    formula=r"\left(D^{-q} + X^{-q} + (\eta C)^{-q} + (\lambda S)^{-q}\right)^{-1/q},\; "
    r"D = \frac{n}{1/r + t/S},\; X = \frac{m x}{1 + \beta \max(0, D/mx - 1) + \delta \max(0, n/o - 1)},\; "
    r"x = \left(\frac{o}{\kappa c} + \frac{1}{\Omega} + \frac{\gamma}{\kappa} \max(0, c/o - 1)\right)^{-1},\; "
    r"m = o - o\,(1 - 1/o)^n,\; "
    r"r = \min\left(\frac{w B}{R'}, \frac{\mathrm{MSS}}{R'}\sqrt{\frac{3}{2p'}}, x, \eta C\right),\; "
    r"t = t_0 + R'\left(h + h'\,[o > 1] + \log_2\left(1 + \frac{r R'}{10\,\mathrm{MSS}}\right)\right)",
    source="this project, 2026, from the window limit, Mathis and others 1997, slow start as in N. Cardwell, "
    "S. Savage, T. Anderson, Modeling TCP latency, Proc. INFOCOM, 2000, and saturation as in Gunther 2008",
    axes=(
        *("streams", "tcp_streams", "rtt", "cores", "origins"),
        *("file_size", "tcp_buffer", "bandwidth", "loss", "mtu"),
    ),
    parameters=(
        # With one file size handshakes and setup below say how long a file takes, as these two do: those are held, and
        # what the fit with other values of them would make of these two is in their intervals.
        replace(BASE, neutral=None),
        WINDOW,
        # Without a loss that varies this is another name of the window, which is what congestion leaves of the buffer.
        replace(BACKGROUND, guess=1e-6, needs=("rtt", "loss"), neutral=1e-10, absorbed=True),
        _rtts("handshakes", "h: RTTs of a transfer before its data", "file_size"),
        _rtts(
            "redirection",
            "h′: RTTs more of a transfer that asks a redirector, as there is with several origins",
            "origins",
        ),
        Parameter(
            "setup",
            "s",
            "t₀: time of a transfer without data, whatever the RTT",
            1e-3,
            60.0,
            0.2,
            "log",
            ("file_size",),
            1e-3,
        ),
        Parameter("per_core", "Gbit/s", "κ: throughput of a core", 1e-2, 1e3, 2.0, "log", ("cores",)),
        Parameter("instance", "Gbit/s", "Ω: largest throughput of an origin", 1e-2, 1e4, 30.0, "log"),
        Parameter("contention", "1", "β: what streams beyond the origins' capacity cost", 0.0, 2.0, 0.05),
        Parameter(
            "crowding",
            "1",
            "δ: what each further stream of an origin costs it",
            1e-6,
            1.0,
            1e-3,
            "log",
            ("streams",),
            1e-6,
        ),
        Parameter(
            "coherency",
            "1",
            "γ: what each pair of an origin's cores costs",
            1e-9,
            1.0,
            1e-4,
            "log",
            ("cores",),
            1e-9,
        ),
        Parameter(
            "client",
            "1/s",
            "λ: transfers that the client starts in a second",
            1e-2,
            1e6,
            50.0,
            "log",
            ("file_size",),
            1e6,
        ),
        EFFICIENCY,
        Parameter("sharpness", "1", "q: how sharply one limit gives way to another", 1.0, 30.0, 4.0, "log"),
    ),
    function=_combined,
)
