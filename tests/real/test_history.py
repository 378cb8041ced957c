# SPDX-License-Identifier: Apache-2.0
"""A sweep measured twice by cron's line as it is written, and the page of a history in Chromium."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tpcsweep.analysis.history import runs
from tpcsweep.analysis.history.change_points import find_history
from tpcsweep.analysis.history.history_page import history_content
from tpcsweep.data.labels import STATUS
from tpcsweep.pages.rendering import render

from tests.support.browser import visiting
from tests.support.histories import CELLS, folded, runs_of, times, weekly
from tests.support.workflow import ROOT, TPCSWEEP, finished, succeeded

SWEEP = {
    "parameters": {"rtt": "5 ms", "bandwidth": "100 Mbit/s", "tool": "curl", "file_size": "4 MiB"},
    "measurement": {"min_time": "1 s", "max_time": "2 s", "precision": "20 %"},
    "retry_share": 0,
}
SNAKEFILE = """
include: "workflow/Snakefile"


rule without_notebooks:
    default_target: True
    input:
        STUDIES.cells,
        expand(rules.page.output, study=STUDIES),
"""
"""The workflow with a default target that runs no notebook, which would take a minute and is tested with a sweep."""
LAYOUT = """() => {
  const inside = document.querySelector(".plot svg").getBoundingClientRect();
  const labels = [...document.querySelectorAll(".plot text")].map(label => label.getBoundingClientRect());
  return { wide: document.scrollingElement.scrollWidth, rows: document.querySelectorAll(".over-time tbody tr").length,
    lines: document.querySelectorAll(".spark .line").length, high: inside.height,
    outside: labels.filter(label => label.left < 0 || label.right > innerWidth).length };
}"""


def cron(crontab: str, checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run the line of a crontab as cron does: by its shell, with what stands above it in the environment."""
    settings = dict(re.findall(r"(?m)^([A-Z]+)=(.*)$", crontab))
    settings["TPCSWEEP"] = str(checkout)
    [line] = re.findall(r"(?m)^\d.*$", crontab)
    *_, user, command = line.split(maxsplit=6)
    assert user == "root" and "%" not in command  # a line's end to cron
    environment = {**settings, "HOME": str(Path.home()), "LOGNAME": user}
    return finished([settings["SHELL"], "-c", command], cwd=Path.home(), env=environment)


def test_crons_line_measures_again_and_keeps_both_runs(tmp_path: Path) -> None:
    (tmp_path / "config/sweeps").mkdir(parents=True)
    (tmp_path / "config/sweeps/demo.yaml").write_text(yaml.safe_dump(SWEEP))
    (tmp_path / "config/config.yaml").write_text((ROOT / "config/config.yaml").read_text())
    (tmp_path / "results").mkdir()
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    for name in ("workflow", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    results = tmp_path / "results/demo"
    snakemake = [sys.executable, "-m", "snakemake", "--config", "sweep=demo", "--", "results/demo/dataset.nc"]
    for command in (snakemake, [*TPCSWEEP, "history", str(results)]):  # as last week's line, without the page
        said = succeeded(command, cwd=tmp_path)
    assert "1 run, the last of" in said
    for file in (results / "cells").rglob("*.json"):
        subprocess.run(["touch", "--date=8 days ago", file], check=True)
    done = cron((ROOT / "config/weekly/crontab").read_text(), tmp_path)
    assert done.returncode == 0, done.stdout
    assert "2 runs, the last of" in done.stdout
    (first, second), left = runs.read_kept_runs(results / runs.FOLDER)
    assert left == {} and not first.starts & second.starts
    # Somebody may commit meanwhile.
    ours, theirs = ({**run.made_with, "commit": ""} for run in (first, second))
    assert ours == theirs and {"kernel", "software.xrootd"} <= set(ours)
    assert (results / "index.html").exists() and (results / "history/index.html").exists()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    datasets = weekly(folded(folder), 26)
    datasets[12:20] = [times(summary, 0.8) for summary in datasets[12:20]]
    datasets[-1]["status"][0, 0] = STATUS.index("failed")
    datasets[-1]["message"][0, 0] = "/a/path/that/breaks/nowhere" * 5
    told = find_history(runs_of(datasets), {})
    assert [change.place for change in told.changes] == [12, 20]
    file = folder / "index.html"
    file.write_text(render("history", **history_content(told)))
    return file


@pytest.mark.parametrize("wide", [390, 1200])
def test_nothing_is_wider_than_the_screen(page: Path, wide: int) -> None:
    with visiting(page, wide) as visit:
        seen = visit.run(LAYOUT)
    assert seen["wide"] <= wide and seen["outside"] == 0
    assert (seen["rows"], seen["lines"]) == (CELLS, CELLS)
    assert seen["high"] > 100
