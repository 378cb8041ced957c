"""Curves of throughput over parallel streams."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points, connections

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
)
