# SPDX-License-Identifier: Apache-2.0
"""A published figure by its file: simulated, drawn and judged, and not computed twice."""

import csv
import json
import sys
from pathlib import Path

import xarray as xr
from tpcsweep.claims.judging import CLAIMS

from tests.support import snakemakes
from tests.support.pictures import hues, pixels
from tests.support.workflow import succeeded

FIGURE = "chep2024_fig8"
STUDY = f"{FIGURE}@simulation"


def test_one_figure_is_made_of_its_own_study_and_the_table_has_every_claim(tmp_path: Path) -> None:
    config = ["--configfile", "config/published.yaml", "--config", f"results={tmp_path}"]
    said = succeeded([sys.executable, "-m", "snakemake", "published", *config, f"sweep={STUDY}"])
    assert f"page: {tmp_path / 'published.html'}" in said
    summary = xr.load_dataset(tmp_path / STUDY / "dataset.nc")
    assert summary.attrs["testbed_kind"] == "simulation"
    assert int(summary["throughput"].notnull().sum()) == 10
    assert hues(pixels(tmp_path / STUDY / "published.png"))
    [cap] = json.loads((tmp_path / STUDY / "published.json").read_text())
    assert (cap["claim"], cap["verdict"], cap["data"]) == ("chep2024.server_cap", "input", "simulated")
    assert cap["draws"] >= 20
    assert [path.parent.name for path in tmp_path.rglob("published.png")] == [STUDY]
    rows = list(csv.DictReader((tmp_path / "verdicts.csv").open()))
    assert {row["claim"] for row in rows} == set(CLAIMS)
    assert {row["figure"] for row in rows if row["data"] == "simulated" and row["testbed"]} == {FIGURE}
    # Its file alone, among all sweeps of publications, needs nothing else, and no cell again.
    planned = snakemakes.snakemake("-n", f"{tmp_path}/{STUDY}/published.png", *config)
    assert "Nothing to be done" in planned.stdout
