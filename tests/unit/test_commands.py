# SPDX-License-Identifier: Apache-2.0
"""Commands that help: `snakemake help` and `snakemake status`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console
from tpcsweep.configuration.loading import Configuration, load, wanted
from tpcsweep.published.figures import FIGURES
from tpcsweep.running import results, status
from tpcsweep.running.results import leave_out, publish

from tests.support.snakemakes import snakemake
from tests.support.workflow import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
NO_TARGETS = {"and", "is", "example2026_fig1"}
"""Words that follow the program's name in sentences, and a figure that an example adds."""


def targets_of(output: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)  +(\S.*?) *$", output, re.MULTILINE))


@pytest.mark.parametrize("config", [[], ["source=examples/surface.nc"]], ids=["sweep", "dataset"])
def test_help_has_a_line_for_each_target_that_pages_name(config: list[str], tmp_path: Path) -> None:
    done = snakemake("help", "--config", *config, f"results={tmp_path}/results")
    assert done.returncode == 0, done.stdout
    lines = targets_of(done.stdout)
    texts = (re.sub(r"(?s)```diff.*?```", "", page.read_text()) for page in PAGES)
    named = {name for text in texts for name in re.findall(r"\bsnakemake (?:-n )?([a-z]\w*)", text)}
    # Of data from elsewhere there is no grid: nothing is measured.
    measuring = {"grid", "status", "reap", "adaptive"} if config else set()
    assert {"plan", "compare", "claims", *FIGURES} <= set(lines)
    assert named - NO_TARGETS - measuring <= set(lines)
    assert next(iter(lines)) == "all"
    assert not (tmp_path / "results").exists()


def test_what_help_lists_can_be_planned(tmp_path: Path) -> None:
    named = targets_of(snakemake("help", "--config", f"results={tmp_path}").stdout)
    named.pop("help")
    done = snakemake("-n", *named, "--config", "sweep=smoke", f"results={tmp_path}")
    assert done.returncode == 0, done.stdout


@pytest.fixture
def configuration(tmp_path: Path) -> Configuration:
    (tmp_path / "mine.yaml").write_text("parameters: {rtt: [1, 2], streams: [1, 2, 3, 4]}\n")
    return load(
        {"sweep": f"{tmp_path}/mine.yaml", "testbed": "netns", "results": f"{tmp_path}/results"}, ROOT
    )


def fill(configuration: Configuration) -> None:
    """Of eight cells: three measured, of which one is flagged and one noted; one failed, one in vain, one of before."""
    well = {"status": "ok", "flags": [], "summary": {}, "provenance": {}}
    outcomes = [
        well,
        well | {"flags": ["not_steady"]},
        well | {"flags": ["wide_interval"]},
        well | {"status": "failed"},
    ]
    cells = iter(configuration.grid.cells)
    for outcome, cell in zip(outcomes, cells, strict=False):
        publish(
            configuration.cell_file(cell),
            wanted(configuration, cell),
            outcome,
            configuration.folder / "rescued",
        )
    cell = next(cells)
    leave_out(configuration.cell_file(cell), wanted(configuration, cell), "rtt asked 2 ms, found 9 ms")
    cell = next(cells)
    spec = wanted(configuration, cell)
    spec["parameters"]["bandwidth"] = 0.123
    publish(configuration.cell_file(cell), spec, well, configuration.folder / "rescued")


def test_each_cell_is_counted_once(configuration: Configuration) -> None:
    cells = configuration.grid.cells
    empty = status.counted(configuration)
    assert (empty.measured, empty.failed, empty.left, empty.cells) == (0, 0, cells, len(cells))
    fill(configuration)
    found = status.counted(configuration)
    assert (found.measured, found.flagged, found.failed) == (3, 1, 1)
    assert (found.not_measured, found.left) == (cells[4:5], cells[5:])
    assert found.cells == len(cells)


def test_a_damaged_file_is_left_to_measure(configuration: Configuration) -> None:
    fill(configuration)
    file = configuration.cell_file(configuration.grid.cells[0])
    file.write_bytes(file.read_bytes()[:-5] + b"\0}}}}")
    found = status.counted(configuration)
    assert (found.measured, found.cells) == (2, len(configuration.grid.cells))


def test_the_time_is_that_of_what_the_next_run_measures(configuration: Configuration) -> None:
    def shown() -> str:
        console = Console(width=200)
        with console.capture() as capture:
            console.print(status.table(configuration))
        return capture.get()

    before = shown()
    fill(configuration)
    after = shown()
    assert "with those not measured" in after
    assert "rtt asked 2 ms, found 9 ms" in after
    assert "a run is under way" not in after
    [longer], [shorter] = (re.findall(r"about (\d+) s to", text) for text in (before, after))
    assert int(shorter) < int(longer)
    results.hold(configuration.folder)
    assert "a run is under way: snakemake with pid" in shown()


def test_status_writes_nothing_and_asks_no_testbed(tmp_path: Path) -> None:
    # A path of 400 Gbit/s is more than this testbed makes.
    (tmp_path / "mine.yaml").write_text("parameters: {bandwidth: 400 Gbps, streams: [1, 2]}\n")
    config = [f"sweep={tmp_path}/mine.yaml", f"results={tmp_path}/results"]
    assert snakemake("grid", "--config", *config).returncode != 0
    done = snakemake("status", "--config", *config)
    assert done.returncode == 0, done.stdout
    assert "mine on netns: 2 cells" in done.stdout
    assert not (tmp_path / "results").exists()
