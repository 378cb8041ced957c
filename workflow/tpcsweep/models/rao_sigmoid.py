"""Throughput over RTT: concave at first, then convex, by Rao and others."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points


def _sigmoid(points: Points, rate: float, steepness: float, middle: float) -> Floats:
    return rate / (1 + np.exp(np.clip(steepness * (points["rtt"] - middle), -60, 60)))


MODEL = Model(
    name="rao_sigmoid",
    title="Rao: concave-convex RTT profile",
    formula=r"r\left(1 - \frac{1}{1 + e^{-a (R - R_T)}}\right)",
    source="N. S. V. Rao, Q. Liu, S. Sen, D. Towsley, G. Vardoyan, R. Kettimuthu, I. Foster, TCP throughput "
    "profiles using measurements over dedicated connections, Proc. HPDC, 2017 (one of their pair of sigmoids)",
    axes=("rtt",),
    parameters=(
        Parameter("rate", "Gbit/s", "twice the throughput at the transition", 1e-4, 1e4, 1.0, "log"),
        Parameter("steepness", "1/ms", "a: how sharp the transition is", 1e-4, 10.0, 0.05, "log", ("rtt",)),
        Parameter(
            "middle", "ms", "R_T: where concave becomes convex", -200.0, 400.0, 50.0, "linear", ("rtt",)
        ),
    ),
    function=_sigmoid,
)
