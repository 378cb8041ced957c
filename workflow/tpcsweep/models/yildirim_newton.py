"""Parallel streams by Yildirim, Yin and Kosar: the exponent found by Newton's method."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points, connections


def _newton(points: Points, a: float, exponent: float, b: float) -> Floats:
    n = connections(points)
    return n / np.sqrt(a * n**exponent + b)


MODEL = Model(
    name="yildirim_newton",
    title="Yildirim, Yin, Kosar: Newton",
    formula=r"\frac{n}{\sqrt{a n^{c} + b}}",
    source="E. Yildirim, D. Yin, T. Kosar, Prediction of optimal parallelism level in wide area data transfers, "
    "IEEE Trans. Parallel and Distributed Systems 22(12), 2011",
    axes=("streams", "tcp_streams"),
    parameters=(
        Parameter("a", "s²/Gbit²", "how fast throughput saturates", 1e-9, 1e6, 1.0, "log"),
        Parameter("exponent", "1", "c: above 2 there is a peak", 0.1, 6.0, 2.0),
        Parameter("b", "s²/Gbit²", "1/√b: throughput of each of few streams", 1e-7, 1e8, 10.0, "log"),
    ),
    function=_newton,
)
