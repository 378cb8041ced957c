# SPDX-License-Identifier: Apache-2.0
"""Measured cells against simulations with parameters fitted to some of them.

    python -m benchmarks.calibration DATASET [AXIS=VALUE …]

Fits the parameters to a measured dataset without the cells at the given values, simulates every cell with SimGrid, and
prints simulated over measured throughput of the left-out and of the other cells.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
import yaml
from tpcsweep.configuration.parameters import Parameters
from tpcsweep.configuration.testbeds import Simulation
from tpcsweep.testbeds.simulation import calibrating, engine

from tests.support.simulating import by_simgrid


def main(path: str, left_out: list[str]) -> None:
    observations, ratio = calibrating.observed(xr.load_dataset(path))
    out = np.zeros(len(observations), bool)
    for text in left_out:
        axis, _, value = text.partition("=")
        out |= np.isclose(observations.frame[axis].to_numpy(float), float(value))
    fitted = calibrating.calibrate(observations.take(~out), ratio, resamples=20)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "calibration.yaml"
        calibrating.save_testbed(file, fitted, ratio, observations)
        settings = Simulation.model_validate(yaml.safe_load(file.read_text()))
        with engine.started(Path(folder) / "simgrid.log") as simgrid:
            simulated = [
                by_simgrid(simgrid, cell(row), settings.parameters, settings.queues)
                for row in observations.frame.to_dict("records")
            ]
    frame = observations.frame.assign(simulated=simulated, left_out=out)
    frame["ratio"] = frame["simulated"] / frame["throughput"]
    frame["fitted"] = fitted.estimate(frame)
    print(f"SimGrid over fixed point: {(frame['simulated'] / frame['fitted']).describe().round(4).to_dict()}")
    for which, rows in frame.groupby("left_out"):
        quantiles = rows["ratio"].quantile([0.05, 0.25, 0.5, 0.75, 0.95]).round(2).tolist()
        error = np.exp(np.abs(np.log(rows["ratio"])).median()) - 1
        name = "left out" if which else "fitted to"
        print(f"{name}: {len(rows)} cells, quantiles {quantiles}, median error {error:.1%}")
    index = [name for name in observations.axes if name != "streams"]
    print(frame.pivot_table(index=index, columns="streams", values="ratio").round(2).to_string())


def cell(row: dict[str, object]) -> Parameters:
    known = {name: value for name, value in row.items() if name in Parameters.model_fields}
    return Parameters.model_validate(known | {"queue_limit": None})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
