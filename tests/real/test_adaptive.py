# SPDX-License-Identifier: Apache-2.0
"""A sweep measured in rounds, by real jobs."""

import json

import pytest
import xarray as xr

from tests.support.pictures import hues, pixels
from tests.support.workflow import Sweep, finished


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Two deployments of four short cells, explored until the error is as asked or everything is measured."""
    fixed = {"bandwidth": "200 Mbit/s", "file_size": "2 MiB", "tcp_buffer": "1 MiB"}
    sweep = Sweep(tmp_path_factory.mktemp("adaptive")).define(
        parameters={**fixed, "rtt": [4, 64], "streams": [1, 2, 4, 8]},
        measurement={"until": "files", "files": 2, "max_time": "10 min"},
    )
    assert "cells measured, estimated error" in explore(sweep)
    return sweep


def explore(sweep: Sweep) -> str:
    done = finished(sweep.asking("adaptive", "--error", "30%"))
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_what_was_asked_for_was_measured_and_the_rest_is_predicted(explored: Sweep) -> None:
    folder = explored.results / "adaptive"
    log = json.loads((folder / "rounds.json").read_text())
    assert log["ended"]
    assert log["failed"] == []
    asked = [cell for one in log["rounds"] for cell in one["cells"]]
    cells = [str(path.relative_to(explored.results / "cells").with_suffix("")) for path in explored.cells()]
    assert sorted(asked) == cells
    ds = xr.load_dataset(folder / "dataset.nc")
    assert int((ds.status > 0).sum()) == len(cells)  # a server that crashes, as XRootD can, fails a cell
    assert int(ds.throughput_predicted.notnull().sum()) == 8
    assert float(ds.throughput_predicted.max()) < 1.2 * 0.2  # of a path of 0.2 Gbit/s
    assert hues(pixels(folder / "figures/surface.png"))
    # Where every cell came to be measured there is no error to draw, and the figure says so in words.
    # After one round with an error the figure has a single point.
    drawn = hues(pixels(folder / "figures/rounds.png"), share=1e-4) > 0
    assert drawn == any(one.get("error") for one in log["rounds"])


def test_another_run_measures_what_was_removed_and_nothing_else(explored: Sweep) -> None:
    gone, *kept = explored.cells()
    before = {path: path.stat().st_mtime_ns for path in kept}
    gone.unlink()
    explore(explored)
    assert explored.cells() == sorted([gone, *kept])
    assert {path: path.stat().st_mtime_ns for path in kept} == before
