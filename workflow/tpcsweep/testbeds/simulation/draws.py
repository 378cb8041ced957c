"""Random parameter sets within their stated ranges, and what the model makes of cells under each."""

from __future__ import annotations

import numpy as np

from tpcsweep.configuration.physics import Physics
from tpcsweep.testbeds.simulation.fluid import solve
from tpcsweep.testbeds.simulation.model import Array, Cells, central

SEED = 2023


def drawn(physics: Physics, count: int) -> dict[str, Array]:
    """As many parameter sets, each parameter (count, 1), or without dimensions where its range is a point.

    Independent, uniform between low and high, of the logarithm where low is above 0: most are known to a factor.
    The same for all cells and sweeps, so that what differs between cells differs within a set.
    """
    generator = np.random.default_rng(SEED)
    found = central(physics)
    for name in found:
        share = generator.uniform(size=(count, 1))
        low, high = getattr(physics, name).range
        if low is None or high is None or low == high:
            continue
        found[name] = low * (high / low) ** share if low > 0 else low + (high - low) * share
    return found


def spread(cells: Cells, physics: Physics, queues: str, count: int, confidence: float) -> tuple[Array, Array]:
    """Between which factors of the throughput so many of the parameter sets lie, as two arrays over the cells.

    Each factor is one of the fixed point, for what is simulated otherwise too; 1 is always within.
    """
    middle = solve(cells, central(physics), queues)[0]
    throughput = solve(cells, drawn(physics, count), queues)[0]
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.broadcast_to(throughput, (count, middle.size)), [tail, 1 - tail], axis=0)
    return np.minimum(low / middle, 1), np.maximum(high / middle, 1)
