"""Parallel streams by Yildirim, Yin and Kosar: the full second order."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points, connections


def _second_order(points: Points, a: float, skew: float, c: float) -> Floats:
    n = connections(points)
    return np.asarray(n / np.sqrt(a * n**2 + 2 * skew * np.sqrt(a * c) * n + c))


MODEL = Model(
    name="yildirim",
    title="Yildirim, Yin, Kosar: full second order",
    formula=r"\frac{n}{\sqrt{a n^2 + b n + c}},\; b = 2 s \sqrt{a c}",
    source="E. Yildirim, D. Yin, T. Kosar, Prediction of optimal parallelism level in wide area data transfers, "
    "IEEE Trans. Parallel and Distributed Systems 22(12), 2011",
    axes=("streams", "tcp_streams"),
    parameters=(
        Parameter("a", "s²/Gbit²", "1/√a: throughput of many streams", 1e-7, 1e6, 1.0, "log"),
        # With b in place of s the root would be of negative numbers in most of the space.
        Parameter(
            "skew", "1", "s = b / 2√(ac): below 0 there is a peak, at √(c/a)/-s streams", -0.999, 10.0, 0.0
        ),
        Parameter("c", "s²/Gbit²", "1/√c: throughput of each of few streams", 1e-7, 1e8, 10.0, "log"),
    ),
    function=_second_order,
)
