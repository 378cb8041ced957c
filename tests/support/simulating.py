# SPDX-License-Identifier: Apache-2.0
"""Simulated cells, with the shipped parameters or others."""

from pathlib import Path

from tpcsweep.data import folding
from tpcsweep.sweeps.parameters import Parameters
from tpcsweep.sweeps.study import SweepStudy, cell_spec
from tpcsweep.testbeds.loading import load
from tpcsweep.testbeds.simulation.fixed_point import central, model_cells, solve
from tpcsweep.testbeds.simulation.physics import Estimate, Physics
from tpcsweep.testbeds.simulation.settings import Simulation
from tpcsweep.testbeds.simulation.testbed import simulate
from tpcsweep.testbeds.support import check

ROOT = Path(__file__).parents[2]


def shipped(name: str = "simulation") -> Simulation:
    return load({"sweep": "smoke", "testbed": name}, ROOT).testbed


PHYSICS = shipped().parameters


def given_values(**values: float | None) -> Physics:
    """The shipped parameters with other values, each for certain."""
    known = {"source": "made up"}
    given = {name: Estimate(value=v, unit=getattr(PHYSICS, name).unit, **known) for name, v in values.items()}
    return PHYSICS.model_copy(update=given)


AT_ONCE = given_values(setup_time=0, setup_rtts=0, setup_cpu=0, spill=0)


def fixed_point(one: Parameters, physics: Physics = PHYSICS, queues: str = "path") -> float:
    return float(solve(model_cells([one]), central(physics), queues)[0][0])


def folded(configuration: SweepStudy, folder: Path) -> folding.Folded:
    assert not check(configuration)
    file = folder / "cells.jsonl"
    simulate(configuration, file, 1)
    specifications = (cell_spec(configuration, cell) for cell in configuration.grid.cells)
    lines = folding.cell_lines(file, len(configuration.grid.cells))
    return folding.fold(lines, configuration.grid.axes, specifications)
