# SPDX-License-Identifier: Apache-2.0
"""Datasets of the simulation's fixed point, for tests of what comes after simulating."""

import json
from pathlib import Path

import numpy as np
from tpcsweep.data import folding
from tpcsweep.sweeps.study import SweepStudy
from tpcsweep.testbeds.simulation.fixed_point import central, model_cells, solve, spread
from tpcsweep.testbeds.simulation.testbed import origin


def write(configuration: SweepStudy, path: Path) -> Path:
    """Write the dataset of a configuration whose testbed simulates, without simulating a transfer."""
    settings, grid = configuration.testbed, configuration.grid
    cells = model_cells(cell.parameters for cell in grid.cells)
    throughput = solve(cells, central(settings.parameters), settings.queues)[0]
    low, high = spread(cells, settings.parameters, settings.queues, 20, 0.95)
    axes = grid.axes.items()
    places = [np.array([values.index(cell.axes[name]) for cell in grid.cells]) for name, values in axes]
    shares = {"throughput": 1.0, "throughput_low": low, "throughput_high": high}
    figures = {name: throughput * share for name, share in shares.items()}
    figures["duration"] = np.full(len(grid.cells), float(configuration.sweep.measurement.bounds[1]))
    fixed = grid.cells[0].parameters.model_dump(exclude=set(grid.axes))
    attributes = {
        "title": "a test's",
        "sweep": configuration.name,
        "testbed": configuration.testbed_name,
        "testbed_kind": "simulation",
        "measurement_confidence": 0.95,
        **dict.fromkeys(
            ("summary", "source", "measured_from", "measured_until", "software", "commit"), "made up"
        ),
        "claims_used_as_inputs": " ".join(settings.inputs),
        "claims_that_follow_from_assumptions": json.dumps(settings.assumptions),
        **configuration.attributes,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    folding.write(folding.tabulate(grid.axes, places, figures, fixed, origin(settings), attributes), path)
    return path
