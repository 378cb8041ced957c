# SPDX-License-Identifier: Apache-2.0
"""Cells simulated by SimGrid and by the fixed point, with the shipped parameters or others."""

from pathlib import Path

from tpcsweep import dataset
from tpcsweep.configuration.checks import check
from tpcsweep.configuration.loading import Configuration, cell_spec, load
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.physics import Estimate, Physics
from tpcsweep.configuration.sweep import Measurement
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.testbeds.simulation.engine import Engine, cell_plan
from tpcsweep.testbeds.simulation.model import central, model_cells, solve
from tpcsweep.testbeds.simulation.result import Course, course
from tpcsweep.testbeds.simulation.testbed import simulate
from tpcsweep.variables import GBIT

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


def lasting(seconds: float) -> Measurement:
    """A cell of so many seconds, with some hundred samples."""
    return Measurement(until="seconds", seconds=seconds, interval=min(max(0.001, seconds / 100), 3600))


def enough(one: Parameters, physics: Physics, queues: str) -> Measurement:
    """A cell that is long enough for a thousand transfers, and forty of each stream."""
    each = max(40, 1000 / one.streams)
    return lasting(min(each * one.streams * one.file_size * GBIT / fixed_point(one, physics, queues), 3e5))


def simulated_course(
    simgrid: Engine, one: Parameters, how: Measurement, physics: Physics = PHYSICS, queues: str = "path"
) -> Course:
    planned = cell_plan(one, physics, queues, how)
    return course(planned, simgrid.simulate(planned))


def by_simgrid(simgrid: Engine, one: Parameters, physics: Physics = PHYSICS, queues: str = "path") -> float:
    return simulated_course(simgrid, one, enough(one, physics, queues), physics, queues).throughput


def folded(configuration: Configuration, folder: Path) -> dataset.Folded:
    assert not check(configuration)
    file = folder / "cells.jsonl"
    simulate(configuration, file, folder, 1)
    specifications = (cell_spec(configuration, cell) for cell in configuration.grid.cells)
    lines = dataset.cell_lines(file, len(configuration.grid.cells))
    return dataset.fold(lines, configuration.grid.axes, specifications)
