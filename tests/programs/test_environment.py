# SPDX-License-Identifier: Apache-2.0
"""Figures are byte for byte the same for everybody, whatever settings a user has for matplotlib and Jupyter."""

import os
import shutil
import sys
from pathlib import Path

from tests.support import hostile
from tests.support.workflow import ROOT, finished


def figures(folder: Path, environment: dict[str, str]) -> dict[str, bytes]:
    snakemake = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    config = [f"dataset={ROOT / 'examples/surface.nc'}", f"results={folder / 'results'}"]
    command = [*snakemake, "--config", *config, "--", str(folder / "results/surface/figures/limits.png")]
    done = finished(command, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout
    return {path.name: path.read_bytes() for path in (folder / "results").rglob("figures/*")}


def test_figures_do_not_depend_on_who_draws_them(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        shutil.copytree(ROOT / "config", folder / "config")
    (theirs / "matplotlibrc").write_text(hostile.BAD_RC)
    drawn = figures(mine, dict(os.environ))
    assert {"limits.png", "limits.svg"} <= set(drawn)
    assert figures(theirs, hostile.environment(tmp_path)) == drawn
