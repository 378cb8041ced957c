"""The workflow as Snakemake sees it, without running a job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.workflow import ROOT, finished


def snakemake(*arguments: str) -> subprocess.CompletedProcess[str]:
    return finished([sys.executable, "-m", "snakemake", *arguments])


@pytest.mark.parametrize("sweep", [path.stem for path in sorted((ROOT / "config/sweeps").glob("*.yaml"))])
def test_every_sweep_that_ships_can_be_planned(sweep: str, tmp_path: Path) -> None:
    done = snakemake("-n", "--config", f"sweep={sweep}", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/{sweep}/report.html" in done.stdout


def test_a_configfile_is_honoured(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"sweep: smoke\nresults: {tmp_path}/elsewhere\n")
    done = snakemake("-n", "--configfile", str(tmp_path / "mine.yaml"))
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/elsewhere/smoke/report.html" in done.stdout


def test_wrong_input_is_refused_in_one_line_and_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("parameters:\n  rtt: 5 MiB\n")
    done = snakemake("-n", "--config", f"sweep={tmp_path}/bad.yaml")
    assert done.returncode != 0
    assert f"{tmp_path}/bad.yaml: parameters.rtt: given '5 MiB', allowed: a time" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_grid_with_holes_asks_for_the_cells_that_exist(tmp_path: Path) -> None:
    (tmp_path / "holes.yaml").write_text(
        "parameters: {rtt: [1, 2], streams: [1, 2]}\nexclude: [{rtt: 1, streams: 2}]\n"
    )
    done = snakemake("-n", "cells", "--config", f"sweep={tmp_path}/holes.yaml", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "rtt=2/streams=2" in done.stdout
    assert "rtt=1/streams=2" not in done.stdout


def test_a_cell_off_the_grid_is_unknown(tmp_path: Path) -> None:
    wanted = f"{tmp_path}/smoke/cells/deployment=only/streams=99/repetition=1.json"
    done = snakemake("-n", wanted, "--config", "sweep=smoke", f"results={tmp_path}")
    assert done.returncode != 0
    assert "MissingRuleException" in done.stdout


def test_the_grid_is_shown_as_a_table(tmp_path: Path) -> None:
    done = snakemake("grid", "--config", "sweep=matrix", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout
    assert "matrix on netns: 72 cells in 12 deployments" in done.stdout
    assert "redirector, direct" in done.stdout
