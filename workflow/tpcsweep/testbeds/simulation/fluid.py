"""The model's mean-field fixed point: all cells and parameter sets at once, without simulating a transfer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpcsweep.testbeds.simulation.model import Array, Cells, Terms, terms

ROUNDS = 12
"""Of iteration. As more throughput costs more a byte, and by less than in proportion, each round shrinks the relative
error by (√(1+γ) − 1)/(√(1+γ) + 1) at least, which is a sixth for a spill γ of 1: 10⁻⁹ is left."""


def solve(cells: Cells, p: Mapping[str, Array], queues: str) -> tuple[Array, Terms]:
    """Throughput in Gbit/s of cells (cells,) under parameters without dimensions or (draws, 1), and its terms.

    T = min(what the streams demand, every ceiling), where the cost of a byte depends on T.
    """
    found = np.zeros(np.broadcast_shapes(cells.streams.shape, *(np.shape(value) for value in p.values())))
    for _ in range(ROUNDS if np.any(p["spill"]) else 0):  # without spill nothing depends on T
        found = least(terms(found, cells, p, queues))
    at = terms(found, cells, p, queues)
    return least(at), at


def least(at: Terms) -> Array:
    """What is left of the streams' demand under all ceilings."""
    least: Array = np.minimum.reduce(np.broadcast_arrays(at.demand, *at.ceilings.values()))
    return least
