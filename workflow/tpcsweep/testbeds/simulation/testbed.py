# SPDX-License-Identifier: Apache-2.0
"""The simulated testbed: a process of SimGrid for each deployment, as many side by side as there are cores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpcsweep.broken import BrokenError
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Physics
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.simulation import engine
from tpcsweep.testbeds.simulation.engine import Engine, SimulationError
from tpcsweep.testbeds.simulation.plan import plan
from tpcsweep.testbeds.simulation.result import course, result

if TYPE_CHECKING:
    from tpcsweep.measure.steady import Steady

EXPECTED = (SimulationError,)


@dataclass(frozen=True)
class Site:
    """A simulation that waits for cells. Nothing of it can break under one but SimGrid, which ends the job."""

    settings: Simulation
    engine: Engine

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What cells are computed with. No host, kernel or CPU: they have no part in it."""
        physics = self.settings.parameters
        return {
            "software": {"simgrid": self.engine.version},
            "simulation": {
                **self.settings.model_dump(mode="json", include={"inputs", "assumptions", "queues", "draws"}),
                "parameters": {
                    name: [getattr(physics, name).value, *getattr(physics, name).range]
                    for name in Physics.model_fields
                },
            },
        }

    def check(self) -> None:
        """Nothing runs between cells."""

    def explain(self, error: BrokenError) -> str:
        return str(error)


@contextlib.contextmanager
def deployed(settings: Simulation, request: Request) -> Iterator[Site]:
    """Start SimGrid. Raises SimulationError."""
    request.stage(f"simulating {request.deployment}")
    with engine.started(request.logs) as running:
        yield Site(settings, running)


def measure(
    site: Site,
    wanted: Parameters,
    measurement: Measurement,
    _prefix: str,
    _show: Callable[[Steady, float], None],
) -> dict[str, Any]:
    """Simulate a cell; see `measure.cell.measure` for what is returned. Raises SimulationError."""
    settings = site.settings
    cell = plan(wanted, settings.parameters, settings.queues, measurement)
    return result(wanted, course(cell, site.engine.simulate(cell)), settings, measurement.confidence)


def require(_settings: Simulation) -> None:
    """Nothing: a simulation needs nothing that all of them could lack but SimGrid, which says so itself."""


def reap(_settings: Simulation) -> list[str]:
    """Nothing: a simulation leaves nothing behind."""
    return []
