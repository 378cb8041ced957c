# SPDX-License-Identifier: Apache-2.0
"""The simulated testbed: nothing is deployed on it, and `study` computes all cells of a sweep at once."""

from __future__ import annotations

from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.testbeds.simulation.engine import SimulationError

EXPECTED = (SimulationError,)


def require(_settings: Simulation) -> None:
    """Do nothing: a simulation needs at most SimGrid, whose absence `study` reports."""


def reap(_settings: Simulation) -> list[str]:
    """Return nothing: a simulation leaves nothing behind."""
    return []
