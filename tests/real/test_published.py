# SPDX-License-Identifier: Apache-2.0
"""A figure of a publication, by its target: simulated, drawn and judged, and never made twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

from tests.support.pictures import hues, pixels
from tests.support.workflow import finished

pytestmark = pytest.mark.real

FIGURE = "chep2024_fig8"


def target(name: str, results: Path, *config: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", name, "--config", f"results={results}", *config]
    return finished(command)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    done = target(FIGURE, folder)
    assert done.returncode == 0, done.stdout
    return folder


def test_a_target_makes_data_figure_and_verdicts(results: Path) -> None:
    folder = results / "published" / f"{FIGURE}@simulation"
    summary = xr.load_dataset(folder / "dataset.nc")
    assert summary.attrs["testbed_kind"] == "simulation"
    assert int(summary["throughput"].notnull().sum()) == 10
    assert hues(pixels(folder / "published.png"))
    [cap] = json.loads((folder / "published.json").read_text())
    assert (cap["claim"], cap["verdict"], cap["data"]) == ("chep2024.server_cap", "input", "simulated")
    assert cap["draws"] >= 20


def test_a_second_run_simulates_a_deleted_cell_and_no_other(results: Path) -> None:
    cells = sorted((results / "published" / f"{FIGURE}@simulation" / "cells").rglob("*.json"))
    gone, *kept = cells
    before = {path: path.read_bytes() for path in kept}  # with the time when each was simulated
    gone.unlink()
    done = target(FIGURE, results)
    assert done.returncode == 0, done.stdout
    assert gone.is_file()
    assert {path: path.read_bytes() for path in kept} == before


def test_what_a_testbed_cannot_do_is_refused_with_the_reason_and_nothing_is_drawn(results: Path) -> None:
    done = target(FIGURE, results, "testbed=netns")
    assert done.returncode != 0
    assert "bandwidth: given 400 Gbit/s, allowed: at most 5 Gbit/s" in done.stdout
    assert not list((results / "published").rglob(f"{FIGURE}/published.png"))
