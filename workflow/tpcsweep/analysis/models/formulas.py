# SPDX-License-Identifier: Apache-2.0
"""Throughput formulas that are fitted to sweeps: functions, and the table of models that they become."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpcsweep.analysis.models.formula import Floats, Model, Parameter, Points
from tpcsweep.common.numbers import GBIT_PER_MS
from tpcsweep.measuring import tcp, throughput
from tpcsweep.measuring.tcp import first_window, payload, slow_start, window_rate

RANGE = 16 * 2.0**20  # bytes of each range that XRootD requests if a transfer has more than one connection

_DELAYED = 2.0  # packets for each acknowledgement
_LEAST_TIMEOUT = 200.0  # ms: minimum of Linux's retransmission timeout beyond the RTT
_MANY_CORES = 128.0  # cores of a side without a quota, as in one large server


def mathis_rate(points: Points, rtt: Floats, background: float) -> Floats:
    """Return Gbit/s of one connection at each point, by `measuring.tcp.mathis`."""
    return tcp.mathis(payload(points["mtu"]), rtt, np.minimum(points["loss"] + background, 1.0))


def connections(points: Points) -> Floats:
    """Return the number of TCP connections that carry data: streams × tcp_streams."""
    return np.asarray(points["streams"] * points["tcp_streams"])


def _combined(
    points: Points, base: float, window: float, background: float, handshakes: float, redirection: float,
    setup: float, per_core: float, instance: float, contention: float, crowding: float, coherency: float,
    client: float, efficiency: float, sharpness: float,
) -> Floats:  # fmt: skip
    rtt = points["rtt"] + base
    streams, origins, inside = points["streams"], points["origins"], points["tcp_streams"]
    path = efficiency * points["bandwidth"]
    # Universal Scalability Law: beyond 1/√γ cores, one more core costs more than it adds.
    each = points["cores"] / origins
    beyond = np.where(np.isfinite(each), np.maximum(each - 1, 0.0), 0.0)
    origin = 1 / (1 / (per_core * each) + 1 / instance + coherency * beyond / per_core)
    # Rate of one running transfer: each of several connections waits between its ranges.
    connection = np.minimum(
        window_rate(window * points["tcp_buffer"], rtt), mathis_rate(points, rtt, background)
    )
    waiting = np.where(inside > 1, rtt / (GBIT_PER_MS * RANGE), 0.0)
    alone = np.minimum(inside / (1 / connection + waiting), np.minimum(path, origin))
    # Each file also costs the client's start, round trips of handshakes and of slow start.
    first = window_rate(inside * first_window(points["mtu"]), rtt)
    before = handshakes + np.where(origins > 1, redirection, 0.0)
    trips = before + slow_start(alone, first)
    demand = throughput.demand(streams, alone, setup, trips, rtt, points["file_size"])
    servers = throughput.busy_origins(streams, origins) * origin
    overload = np.maximum(demand / servers - 1, 0.0)
    crowd = np.maximum(streams / origins - 1, 0.0)
    files = client * points["file_size"] * GBIT_PER_MS * 1e-3
    limits = demand, servers / (1 + contention * overload + crowding * crowd), path, files
    return throughput.soft_minimum(limits, sharpness)


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
    rate = window_rate(payload(points["mtu"]), recovery + (rtt + _LEAST_TIMEOUT) * timeouts)
    ceiling = window_rate(window * points["tcp_buffer"], rtt)
    return np.minimum(points["bandwidth"], np.minimum(rate, ceiling))


def _hacker(points: Points, base: float, background: float, efficiency: float) -> Floats:
    rate = mathis_rate(points, points["rtt"] + base, background)
    return np.minimum(efficiency * points["bandwidth"], connections(points) * rate)


def _yildirim(points: Points, a: float, skew: float, c: float) -> Floats:
    n = connections(points)
    return np.asarray(n / np.sqrt(a * n**2 + 2 * skew * np.sqrt(a * c) * n + c))


def _saturating(points: Points, a: float, b: float, exponent: float = 2.0) -> Floats:
    n = connections(points)
    return n / np.sqrt(a * n**exponent + b)


def _usl(points: Points, rate: float, **shares: float) -> Floats:
    counts = {
        "streams": connections(points),
        "cores": np.minimum(points["cores"], _MANY_CORES),
        "origins": points["origins"],
    }
    total = np.asarray(rate)
    for axis, n in counts.items():
        # The law is undefined below one; throughput is proportional there.
        more = np.maximum(n, 1.0)
        contention, coherency = shares[f"{axis}_contention"], shares[f"{axis}_coherency"]
        cost = 1 + contention * (more - 1) + coherency * more * (more - 1)
        total = total * (np.minimum(n, 1.0) * more / cost)
    return total


def _rao_sigmoid(points: Points, rate: float, steepness: float, middle: float) -> Floats:
    return rate / (1 + np.exp(np.clip(steepness * (points["rtt"] - middle), -60, 60)))


def _rao_ramp(points: Points, base: float, rate: float, duration: float) -> Floats:
    rtt = points["rtt"] + base
    start = window_rate(connections(points) * first_window(points["mtu"]), rtt)  # in the first RTT
    lasts = 1e3 * duration / rtt  # in RTTs, like `rounds`
    rounds = np.minimum(slow_start(rate, start), lasts)
    return np.asarray((start * np.expm1(rounds * np.log(2)) + rate * (lasts - rounds)) / lasts)


def _ranges(points: Points, rate: float, idle: float, efficiency: float) -> Floats:
    requested = np.where(points["tcp_streams"] > 1, RANGE, points["file_size"])
    waiting = idle * points["rtt"] / (GBIT_PER_MS * requested)  # s/Gbit
    return np.minimum(efficiency * points["bandwidth"], connections(points) / (1 / rate + waiting))


def _constant(_points: Points, rate: float) -> Floats:
    return np.asarray(rate)


_BASE = Parameter(
    "base", "ms", "RTT that hosts add to the path's", 0.01, 20.0, 0.3, "log", needs=("rtt",), neutral=0.1
)
"""The addition to the RTT keeps a LAN's 0 ms from dividing by zero."""

_EFFICIENCY = Parameter(
    "efficiency", "1", "largest share of the path's bandwidth that is goodput", 1e-4, 1.1, 0.9, "log"
)

_WINDOW = Parameter(
    "window", "1", "window of a connection as a share of the largest TCP buffer",
    1e-4, 2.0, 0.5, "log", ("rtt",),
)  # fmt: skip
"""Linux reserves part of the sysctl's buffer for overhead; congestion control may use less still."""

_BACKGROUND = Parameter(
    "background", "1", "share of packets lost beside those that the path is set to lose",
    1e-10, 0.3, 1e-5, "log", ("rtt",),
)  # fmt: skip

_COMBINED = (
    # With a single file size, handshakes and setup have the same effect as base and window: they are fixed, and the
    # intervals of base and window cover their possible values.
    replace(_BASE, neutral=None),
    _WINDOW,
    # If loss does not vary, it has the same effect as the window: the part of the buffer that congestion control uses.
    replace(_BACKGROUND, guess=1e-6, needs=("rtt", "loss"), neutral=1e-10),
    Parameter("handshakes", "1", "h: RTTs of a transfer before its data",
              0.0, 60.0, 6.0, "linear", ("rtt", "file_size"), 0.0),
    Parameter("redirection", "1",
              "h′: RTTs more of a transfer that asks a redirector, as there is with several origins",
              0.0, 60.0, 6.0, "linear", ("rtt", "origins"), 0.0),
    Parameter("setup", "s", "t₀: time of a transfer without data, at any RTT",
              1e-3, 60.0, 0.2, "log", ("file_size",), 1e-3),
    Parameter("per_core", "Gbit/s", "κ: throughput of a core, were it the only limit",
              1e-2, 1e3, 2.0, "log", ("cores",)),
    Parameter("instance", "Gbit/s", "Ω: largest throughput of an origin", 1e-2, 1e4, 30.0, "log"),
    Parameter("contention", "1", "β: what streams beyond the origins' capacity cost", 0.0, 2.0, 0.05),
    Parameter("crowding", "1", "δ: cost of each further stream to its origin",
              1e-6, 1.0, 1e-3, "log", ("streams",), 1e-6),
    Parameter("coherency", "1", "γ: cost of each pair of an origin's cores",
              1e-9, 1.0, 1e-4, "log", ("cores",), 1e-9),
    Parameter("client", "1/s", "λ: transfers that the client starts in a second",
              1e-2, 1e6, 50.0, "log", ("file_size",), 1e6),
    _EFFICIENCY,
    Parameter("sharpness", "1", "q: how sharply one limit gives way to another", 1.0, 30.0, 4.0, "log"),
)  # fmt: skip


def _usl_pair(axis: str) -> tuple[Parameter, Parameter]:
    needs = () if axis == "streams" else (axis,)
    serial, pairs = f"serial share over {axis}", f"cost of each pair of {axis}"
    return (
        # With a contention of 1, more of them add nothing.
        Parameter(f"{axis}_contention", "1", serial, 0.0, 2.0, 0.1, "linear", needs, 1.0),
        Parameter(f"{axis}_coherency", "1", pairs, 1e-9, 1.0, 1e-3, "log", needs, 1e-9),
    )


_YILDIRIM_2011 = (
    "E. Yildirim, D. Yin, T. Kosar, Prediction of optimal parallelism level in wide area data transfers, "
    "IEEE Trans. Parallel and Distributed Systems 22(12), 2011"
)
_RAO_2017 = (
    "N. S. V. Rao, Q. Liu, S. Sen, D. Towsley, G. Vardoyan, R. Kettimuthu, I. Foster, TCP throughput "
    "profiles using measurements over dedicated connections, Proc. HPDC, 2017"
)
_MANY_STREAMS = Parameter("a", "s²/Gbit²", "1/√a: throughput of many streams", 1e-7, 1e6, 1.0, "log")
_FEW_STREAMS = Parameter("b", "s²/Gbit²", "1/√b: throughput of each of few streams", 1e-7, 1e8, 10.0, "log")
_CONNECTIONS = ("streams", "tcp_streams")

_TABLE = (
    Model(
        name="combined", title="Soft minimum of all limits",
        formula=r"\left(D^{-q} + X^{-q} + (\eta C)^{-q} + (\lambda S)^{-q}\right)^{-1/q},\; "
        r"D = \frac{n}{1/r + t/S},\; "
        r"X = \frac{m x}{1 + \beta \max(0, D/mx - 1) + \delta \max(0, n/o - 1)},\; "
        r"x = \left(\frac{o}{\kappa c} + \frac{1}{\Omega} + "
        r"\frac{\gamma}{\kappa} \max(0, c/o - 1)\right)^{-1},\; m = o - o\,(1 - 1/o)^n,\; "
        r"r = \min\left(\frac{w B}{R'}, \frac{\mathrm{MSS}}{R'}\sqrt{\frac{3}{2p'}}, x, \eta C\right),\; "
        r"t = t_0 + R'\left(h + h'\,[o > 1] + \log_2\left(1 + \frac{r R'}{10\,\mathrm{MSS}}\right)\right)",
        source="this project, 2026, from the window limit, Mathis and others 1997, slow start as in N. Cardwell, "
        "S. Savage, T. Anderson, Modeling TCP latency, Proc. INFOCOM, 2000, and saturation as in Gunther 2008",
        axes=(*_CONNECTIONS, "rtt", "cores", "origins", "file_size", "tcp_buffer", "bandwidth", "loss", "mtu"),
        parameters=_COMBINED, function=_combined,
    ),
    Model(
        name="window", title="Window limit",
        formula=r"\min\left(\eta C,\; n\,\frac{w B}{R + R_0}\right)",
        source="V. Jacobson, R. Braden, D. Borman, TCP extensions for high performance, RFC 1323, 1992",
        axes=(*_CONNECTIONS, "rtt", "tcp_buffer", "bandwidth"),
        parameters=(_BASE, _WINDOW, _EFFICIENCY), function=_window,
    ),
    Model(
        name="mathis", title="Mathis, Semke, Mahdavi, Ott",
        formula=r"\min\left(C,\; \frac{\mathrm{MSS}}{R + R_0}\sqrt{\frac{3}{2\,(p + p_0)}}\right)",
        source="M. Mathis, J. Semke, J. Mahdavi, T. Ott, The macroscopic behavior of the TCP congestion avoidance "
        "algorithm, Computer Communication Review 27(3), 1997",
        axes=("rtt", "loss", "mtu", "bandwidth"),
        parameters=(_BASE, _BACKGROUND), function=_mathis,
    ),
    Model(
        name="pftk", title="Padhye, Firoiu, Towsley, Kurose",
        formula=r"\min\left(C,\; \frac{w B}{R'},\; \frac{\mathrm{MSS}}{R'\sqrt{2bp'/3} + T_0 "
        r"\min\left(1, 3\sqrt{3bp'/8}\right) p'\,(1 + 32p'^2)}\right),\; R' = R + R_0,\; p' = p + p_0,\; "
        r"b = 2,\; T_0 = R' + 200\,\mathrm{ms}",
        source="J. Padhye, V. Firoiu, D. Towsley, J. Kurose, Modeling TCP throughput: a simple model and its "
        "empirical validation, Proc. SIGCOMM, 1998",
        axes=("rtt", "loss", "mtu", "tcp_buffer", "bandwidth"),
        parameters=(_BASE, _WINDOW, _BACKGROUND), function=_pftk,
    ),
    Model(
        name="hacker", title="Hacker, Athey, Noble",
        formula=r"\min\left(\eta C,\; n\,\frac{\mathrm{MSS}}{R + R_0}\sqrt{\frac{3}{2\,(p + p_0)}}\right)",
        source="T. J. Hacker, B. D. Athey, B. Noble, The end-to-end performance effects of parallel TCP sockets on "
        "a lossy wide-area network, Proc. IPDPS, 2002",
        axes=(*_CONNECTIONS, "rtt", "loss", "mtu", "bandwidth"),
        parameters=(_BASE, _BACKGROUND, _EFFICIENCY), function=_hacker,
    ),
    Model(
        name="lu", title="Lu, Qiao, Dinda, Bustamante",
        formula=r"\frac{n}{\sqrt{a n^2 + b}}",
        source="D. Lu, Y. Qiao, P. A. Dinda, F. E. Bustamante, Modeling and taming parallel TCP on the wide area "
        "network, Proc. IPDPS, 2005",
        axes=_CONNECTIONS,
        parameters=(_MANY_STREAMS, _FEW_STREAMS), function=_saturating,
    ),
    Model(
        name="yildirim", title="Yildirim, Yin, Kosar: full second order",
        formula=r"\frac{n}{\sqrt{a n^2 + b n + c}},\; b = 2 s \sqrt{a c}",
        source=_YILDIRIM_2011,
        axes=_CONNECTIONS,
        parameters=(
            _MANY_STREAMS,
            # With b instead of s, most of the parameter space would have roots of negative numbers.
            Parameter("skew", "1", "s = b / 2√(ac): below 0 there is a peak, at √(c/a)/-s streams",
                      -0.999, 10.0, 0.0),
            Parameter("c", "s²/Gbit²", "1/√c: throughput of each of few streams", 1e-7, 1e8, 10.0, "log"),
        ),
        function=_yildirim,
    ),
    Model(
        name="yildirim_newton", title="Yildirim, Yin, Kosar: Newton",
        formula=r"\frac{n}{\sqrt{a n^{c} + b}}",
        source=_YILDIRIM_2011,
        axes=_CONNECTIONS,
        parameters=(
            Parameter("a", "s²/Gbit²", "how fast throughput saturates", 1e-9, 1e6, 1.0, "log"),
            Parameter("exponent", "1", "c: above 2 there is a peak", 0.1, 6.0, 2.0),
            _FEW_STREAMS,
        ),
        function=_saturating,
    ),
    Model(
        name="usl", title="Universal Scalability Law",
        formula=r"r \prod_{N \in \{n, \mathrm{cores}, \mathrm{origins}\}} "
        r"\frac{N}{1 + \alpha_N (N - 1) + \beta_N N (N - 1)}",
        source="N. J. Gunther, A general theory of computational scalability based on rational functions, "
        "arXiv:0808.1431, 2008",
        axes=(*_CONNECTIONS, "cores", "origins"),
        parameters=(
            Parameter("rate", "Gbit/s", "throughput of one stream, core and origin", 1e-5, 1e4, 1.0, "log"),
            *_usl_pair("streams"),
            *_usl_pair("cores"),
            *_usl_pair("origins"),
        ),
        function=_usl,
    ),
    Model(
        name="rao_sigmoid", title="Rao: concave-convex RTT profile",
        formula=r"r\left(1 - \frac{1}{1 + e^{-a (R - R_T)}}\right)",
        source=f"{_RAO_2017} (one of their pair of sigmoids)",
        axes=("rtt",),
        parameters=(
            Parameter("rate", "Gbit/s", "twice the throughput at the transition", 1e-4, 1e4, 1.0, "log"),
            Parameter("steepness", "1/ms", "a: how sharp the transition is", 1e-4, 10.0, 0.05, "log", ("rtt",)),
            Parameter("middle", "ms", "R_T: where concave becomes convex",
                      -200.0, 400.0, 50.0, "linear", ("rtt",)),
        ),
        function=_rao_sigmoid,
    ),
    Model(
        name="rao_ramp", title="Rao: ramp-up and sustained phase",
        formula=r"f\,\bar\theta_R + (1 - f)\,r,\; f = \min\left(1, \frac{T_R}{T}\right),\; "
        r"T_R = (R + R_0) \log_2\left(1 + \frac{r (R + R_0)}{10\,n\,\mathrm{MSS}}\right)",
        source=_RAO_2017,
        axes=(*_CONNECTIONS, "rtt", "mtu"),
        parameters=(
            _BASE,
            Parameter("rate", "Gbit/s", "r: throughput of the sustained phase", 1e-4, 1e4, 1.0, "log"),
            Parameter("duration", "s", "T: time that a connection lasts", 1e-2, 1e4, 1.0, "log", ("rtt",)),
        ),
        function=_rao_ramp,
    ),
    Model(
        name="ranges", title="Serial ranges of multi-stream pulls",
        formula=r"\min\left(\eta C,\; \frac{n}{1/r + k R / B}\right),\; "
        r"B = 16\,\mathrm{MiB}\text{ for several connections a transfer, else the file}",
        source="XRootD's XrdTpcMultistream, as observed with 5.5.3, 2022; the bound is that of one request a "
        "round trip",
        axes=(*_CONNECTIONS, "rtt", "file_size", "bandwidth"),
        parameters=(
            Parameter("rate", "Gbit/s", "r: throughput of a connection that does not wait", 1e-3, 1e3, 1.0, "log"),
            Parameter("idle", "1", "k: RTTs without data for each request", 0.1, 100.0, 1.0, "log", ("rtt",)),
            _EFFICIENCY,
        ),
        function=_ranges,
    ),
    Model(
        name="constant", title="Constant",
        formula="r",
        source="the null model; no paper",
        axes=(),
        parameters=(Parameter("rate", "Gbit/s", "throughput of every cell", 1e-4, 1e4, 1.0, "log"),),
        function=_constant,
    ),
)  # fmt: skip

MODELS: Mapping[str, Model] = {model.name: model for model in _TABLE}
"""Models by name, in the order of tables."""
