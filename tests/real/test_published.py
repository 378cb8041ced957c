# SPDX-License-Identifier: Apache-2.0
"""A published figure by its file: simulated, drawn and judged, and not computed twice."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr
from tpcsweep.claims import CLAIMS

from tests.support.pictures import hues, pixels
from tests.support.workflow import finished

FIGURE = "chep2024_fig8"
STUDY = f"{FIGURE}@simulation"


def snakemake(target: str, results: Path, *config: str) -> subprocess.CompletedProcess[str]:
    given = ["--configfile", "config/published.yaml", "--config", f"results={results}", *config]
    return finished([sys.executable, "-m", "snakemake", target, *given])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    done = snakemake(f"{folder}/{STUDY}/published.png", folder)
    assert done.returncode == 0, done.stdout
    return folder


def test_a_figure_alone_is_made_of_its_own_study(results: Path) -> None:
    summary = xr.load_dataset(results / STUDY / "dataset.nc")
    assert summary.attrs["testbed_kind"] == "simulation"
    assert int(summary["throughput"].notnull().sum()) == 10
    assert hues(pixels(results / STUDY / "published.png"))
    [cap] = json.loads((results / STUDY / "published.json").read_text())
    assert (cap["claim"], cap["verdict"], cap["data"]) == ("chep2024.server_cap", "input", "simulated")
    assert cap["draws"] >= 20
    assert [path.parent.name for path in results.rglob("published.png")] == [STUDY]


def test_the_table_of_one_figure_has_every_claim_and_computes_no_cell_again(results: Path) -> None:
    cells = results / STUDY / "cells.jsonl"
    before = cells.stat().st_mtime_ns
    done = snakemake("published", results, f"sweep={STUDY}")
    assert done.returncode == 0, done.stdout
    assert cells.stat().st_mtime_ns == before
    rows = list(csv.DictReader((results / "verdicts.csv").open()))
    assert {row["claim"] for row in rows} == set(CLAIMS)
    assert {row["figure"] for row in rows if row["data"] == "simulated" and row["testbed"]} == {FIGURE}
    assert f"page: {results / 'published.html'}" in done.stdout
