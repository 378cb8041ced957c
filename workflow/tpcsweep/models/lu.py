"""Parallel streams by Lu, Qiao, Dinda and Bustamante."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points, connections


def _lu(points: Points, a: float, b: float) -> Floats:
    n = connections(points)
    return n / np.sqrt(a * n**2 + b)


MODEL = Model(
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
)
