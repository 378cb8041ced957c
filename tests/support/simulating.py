# SPDX-License-Identifier: Apache-2.0
"""Simulated cells, with the shipped parameters or others."""

from pathlib import Path

from tpcsweep import dataset
from tpcsweep.configuration.checks import check
from tpcsweep.configuration.loading import Configuration, cell_spec, load
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Estimate, Physics
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.testbeds.simulation.model import central, model_cells, solve
from tpcsweep.testbeds.simulation.testbed import simulate

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


def folded(configuration: Configuration, folder: Path) -> dataset.Folded:
    assert not check(configuration)
    file = folder / "cells.jsonl"
    simulate(configuration, file, 1)
    specifications = (cell_spec(configuration, cell) for cell in configuration.grid.cells)
    lines = dataset.cell_lines(file, len(configuration.grid.cells))
    return dataset.fold(lines, configuration.grid.axes, specifications)
