"""The Universal Scalability Law over streams, cores and origins, by Gunther."""

import numpy as np

from tpcsweep.models.base import Floats, Model, Parameter, Points, connections

_MANY_CORES = 128.0  # what a side without a quota is counted as: the cores of one large server


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
    total = np.full(len(points["streams"]), rate)
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


MODEL = Model(
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
)
