"""The simulated testbed: a process of SimGrid for each deployment, as many side by side as there are cores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tpcsweep.broken import BrokenError
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Physics
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.testbeds import Request
from tpcsweep.testbeds.simulation import engine, model
from tpcsweep.testbeds.simulation.course import course
from tpcsweep.testbeds.simulation.draws import spread
from tpcsweep.testbeds.simulation.engine import Engine, SimulationError
from tpcsweep.testbeds.simulation.plan import plan
from tpcsweep.testbeds.simulation.result import Around, result

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
        known = self.settings.parameters
        return {
            "software": {"simgrid": self.engine.version},
            "simulation": {
                **self.settings.model_dump(mode="json", include={"inputs", "assumptions", "queues", "draws"}),
                "parameters": {
                    name: [getattr(known, name).value, *getattr(known, name).range]
                    for name in Physics.model_fields
                },
            },
        }

    def check(self) -> None:
        """Nothing runs between cells."""

    def explain(self, error: BrokenError) -> str:
        """What has broken."""
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
    how: Measurement,
    _prefix: str,
    _show: Callable[[Steady, float], None],
) -> dict[str, Any]:
    """Simulate a cell; see `measure.cell.measure` for what is returned. Raises SimulationError."""
    settings = site.settings
    physics, queues = settings.parameters, settings.queues
    cells, p = model.cells_of([wanted]), model.central(physics)
    planned = plan(wanted, physics, queues, how)
    found = course(planned, site.engine.simulate(planned))
    at = model.terms(np.array([found.throughput]), cells, p, queues)
    low, high = spread(cells, physics, queues, settings.draws, how.confidence)
    around = Around(
        cores=float(model.used_origins(cells)[0] * model.instance_cores(cells, p)[0]),
        share=float(model.payload_share(cells, p)[0]),
        rtt=float(model.round_trip(cells, p)[0]) * 1000,
        spread=(float(low[0]), float(high[0])),
    )
    return result(wanted, found, at, around)


def require(_settings: Simulation) -> None:
    """Nothing: a simulation needs nothing that all of them could lack but SimGrid, which says so itself."""


def reap(_settings: Simulation) -> list[str]:
    """Nothing: a simulation leaves nothing behind."""
    return []
