# SPDX-License-Identifier: Apache-2.0
"""Curves of throughput over what works in parallel: streams, and cores and origins too."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points, connections

_MANY_CORES = 128.0  # what a side without a quota is counted as: the cores of one large server
_YILDIRIM = (
    "E. Yildirim, D. Yin, T. Kosar, Prediction of optimal parallelism level in wide area data transfers, "
    "IEEE Trans. Parallel and Distributed Systems 22(12), 2011"
)


def _lu(points: Points, a: float, b: float) -> Floats:
    n = connections(points)
    return n / np.sqrt(a * n**2 + b)


def _second_order(points: Points, a: float, skew: float, c: float) -> Floats:
    n = connections(points)
    return np.asarray(n / np.sqrt(a * n**2 + 2 * skew * np.sqrt(a * c) * n + c))


def _newton(points: Points, a: float, exponent: float, b: float) -> Floats:
    n = connections(points)
    return n / np.sqrt(a * n**exponent + b)


def _law(n: Floats, contention: float, coherency: float) -> Floats:
    """Capacity of n relative to that of one; below one n the law has no meaning, and is proportional."""
    more = np.maximum(n, 1.0)
    cost = 1 + contention * (more - 1) + coherency * more * (more - 1)
    return np.asarray(np.minimum(n, 1.0) * more / cost)


def _usl(points: Points, rate: float, **shares: float) -> Floats:
    counts = {
        "streams": connections(points),
        "cores": np.minimum(points["cores"], _MANY_CORES),
        "origins": points["origins"],
    }
    total = np.asarray(rate)
    for axis, n in counts.items():
        total = total * _law(n, shares[f"{axis}_contention"], shares[f"{axis}_coherency"])
    return total


def _pair(axis: str) -> tuple[Parameter, Parameter]:
    needs = () if axis == "streams" else (axis,)
    return (
        # A contention of 1 is no gain from more of them.
        Parameter(
            f"{axis}_contention", "1", f"serial share over {axis}", 0.0, 2.0, 0.1, "linear", needs, 1.0
        ),
        Parameter(
            f"{axis}_coherency", "1", f"cost of each pair of {axis}", 1e-9, 1.0, 1e-3, "log", needs, 1e-9
        ),
    )


MODELS = (
    Model(
        name="lu",
        title="Lu, Qiao, Dinda, Bustamante",
        formula=r"\frac{n}{\sqrt{a n^2 + b}}",
        source="D. Lu, Y. Qiao, P. A. Dinda, F. E. Bustamante, Modeling and taming parallel TCP on the wide area "
        "network, Proc. IPDPS, 2005",
        axes=("streams", "tcp_streams"),
        parameters=(
            Parameter("a", "s²/Gbit²", "1/√a: throughput of many streams", 1e-7, 1e6, 1.0, "log"),
            Parameter("b", "s²/Gbit²", "1/√b: throughput of each of few streams", 1e-7, 1e8, 10.0, "log"),
        ),
        function=_lu,
    ),
    Model(
        name="yildirim",
        title="Yildirim, Yin, Kosar: full second order",
        formula=r"\frac{n}{\sqrt{a n^2 + b n + c}},\; b = 2 s \sqrt{a c}",
        source=_YILDIRIM,
        axes=("streams", "tcp_streams"),
        parameters=(
            Parameter("a", "s²/Gbit²", "1/√a: throughput of many streams", 1e-7, 1e6, 1.0, "log"),
            # With b in place of s the root would be of negative numbers in most of the space.
            Parameter(
                "skew",
                "1",
                "s = b / 2√(ac): below 0 there is a peak, at √(c/a)/-s streams",
                -0.999,
                10.0,
                0.0,
            ),
            Parameter("c", "s²/Gbit²", "1/√c: throughput of each of few streams", 1e-7, 1e8, 10.0, "log"),
        ),
        function=_second_order,
    ),
    Model(
        name="yildirim_newton",
        title="Yildirim, Yin, Kosar: Newton",
        formula=r"\frac{n}{\sqrt{a n^{c} + b}}",
        source=_YILDIRIM,
        axes=("streams", "tcp_streams"),
        parameters=(
            Parameter("a", "s²/Gbit²", "how fast throughput saturates", 1e-9, 1e6, 1.0, "log"),
            Parameter("exponent", "1", "c: above 2 there is a peak", 0.1, 6.0, 2.0),
            Parameter("b", "s²/Gbit²", "1/√b: throughput of each of few streams", 1e-7, 1e8, 10.0, "log"),
        ),
        function=_newton,
    ),
    Model(
        name="usl",
        title="Universal Scalability Law",
        formula=r"r \prod_{N \in \{n, \mathrm{cores}, \mathrm{origins}\}} "
        r"\frac{N}{1 + \alpha_N (N - 1) + \beta_N N (N - 1)}",
        source="N. J. Gunther, A general theory of computational scalability based on rational functions, "
        "arXiv:0808.1431, 2008",
        axes=("streams", "tcp_streams", "cores", "origins"),
        parameters=(
            Parameter("rate", "Gbit/s", "throughput of one stream, core and origin", 1e-5, 1e4, 1.0, "log"),
            *_pair("streams"),
            *_pair("cores"),
            *_pair("origins"),
        ),
        function=_usl,
    ),
)
