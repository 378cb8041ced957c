# SPDX-License-Identifier: Apache-2.0
"""Sweeps from configuration to cells, datasets and reports, on real servers: at once and interrupted."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import xarray as xr

from tests.support import hostile
from tests.support.browser import opened, visiting, widths
from tests.support.fields import differing
from tests.support.leftovers import present, stayed
from tests.support.pictures import drawn, embedded, hues, pixels
from tests.support.workflow import HANGS, ROOT, Sweep, background, finished, jobs, succeeded, wait_until

QUICK = {"until": "files", "files": 2, "max_time": "10 min"}
LONG = {"until": "seconds", "seconds": "10 min"}  # for cells in whose midst something is done
PARAMETERS = {"rtt": "4 ms", "bandwidth": "200 Mbit/s", "file_size": "8 MiB", "streams": [1, 2]}


def test_each_cell_has_a_file_with_what_was_measured(swept: Sweep) -> None:
    cells = [json.loads(path.read_bytes()) for path in swept.cells() if "rtt=4" in path.parts]
    assert sorted(cell["spec"]["parameters"]["streams"] for cell in cells) == [1, 1, 2, 2]
    for cell in cells:
        summary, streams = cell["summary"], cell["spec"]["parameters"]["streams"]
        assert cell["status"] == "ok", cell["message"]
        assert 0 < summary["throughput_average"] < 1.05 * 0.2
        assert 0 < summary["wire_throughput"] < 1.05 * 0.2
        assert summary["throughput"] > 0
        assert (summary["transfers"], summary["transfers_failed"]) == (3 * streams, 0)
        assert summary["rtt_idle"] == pytest.approx(4, rel=0.2)  # or the path would have been refused
        assert cell["provenance"]["path"]["emulator"] in ("netem", "delayline")
        assert cell["provenance"]["software"]["xrootd"] == "5.8.1"  # as the server says, whatever dpkg has
        assert len(cell["samples"]["time"]) == len(cell["samples"]["goodput"]) > 3


def test_cells_have_the_fields_that_they_have_on_clusters(swept: Sweep) -> None:
    for path in swept.cells():
        assert differing(json.loads(path.read_bytes()), "cgroup_version", "quotas", "xrootd") == {}


def test_no_secret_is_in_any_cell_or_log(swept: Sweep) -> None:
    files = [path for path in swept.results.rglob("*") if path.suffix in (".json", ".jsonl", ".log", ".csv")]
    text = "".join(path.read_text(errors="replace") for path in files)
    for mark in ("PRIVATE KEY", "MDAx"):  # a macaroon begins with the length of its first packet, base64
        assert mark not in text


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep that each of the next tests goes on with."""
    axes = PARAMETERS | {"streams": [1, 2, 3]}
    return Sweep(tmp_path_factory.mktemp("interrupted")).define(parameters=axes, measurement=QUICK)


# Kill -9 while a cell is measured is one of the tests of ordinary users.
SIGNALS = [(signal.SIGINT, "deploying"), (signal.SIGINT, "measuring"), (signal.SIGKILL, "deploying")]
SIGNALS += [(signal.SIGTERM, "deploying"), (signal.SIGHUP, "measuring")]


@pytest.mark.parametrize(("how", "stage"), SIGNALS)
def test_a_signal_to_snakemake_leaves_nothing_behind(interrupted: Sweep, how: int, stage: str) -> None:
    before = present()
    for path in (*interrupted.cells(), *interrupted.staged()):  # Snakemake waits for its jobs at SIGTERM
        path.unlink()
    run = _started(interrupted, stage)
    # Ctrl-C goes to everyone in the terminal's foreground.
    (os.killpg if how == signal.SIGINT else os.kill)(run.pid, how)
    run.wait(HANGS)
    wait_until(lambda: not stayed(before), f"nothing is left of {interrupted.output()}")
    _only_whole_cells(interrupted)


def test_what_was_interrupted_again_and_again_is_measured_in_the_end(interrupted: Sweep) -> None:
    succeeded(interrupted.command("cells"))
    assert len(interrupted.cells()) == 3


def test_a_job_that_was_killed_is_cleaned_up_by_reap_and_what_others_have_is_not(tmp_path: Path) -> None:
    other = f"tpc-mine-{os.getpid()}"  # not ours, whatever it is called
    subprocess.run(["ip", "netns", "add", other], check=True)
    before = present()
    with contextlib.ExitStack() as undo:
        undo.callback(subprocess.run, ["ip", "netns", "delete", other], check=True)
        inside = ["nsenter", f"--net=/run/netns/{other}", "sleep", "infinity"]
        guest = undo.enter_context(background(inside))
        sweep = Sweep(tmp_path).define(parameters=PARAMETERS, measurement=LONG)
        _kill_job(_started(sweep, "measuring"))
        assert present()["namespaces"] != before["namespaces"]  # or there was nothing to clean up
        # What the job was starting when it was killed may hold its lock for a moment.
        wait_until(lambda: finished(sweep.asking("reap")).returncode == 0, "what was left is reaped")
        assert stayed(before) == {}
        _only_whole_cells(sweep)
        assert guest.poll() is None
        assert other in present()["namespaces"]


def test_a_job_that_was_killed_as_it_deployed_is_cleaned_up_by_the_next_run(tmp_path: Path) -> None:
    before = present()
    sweep = Sweep(tmp_path).define(parameters=PARAMETERS, measurement=LONG)
    _kill_job(_started(sweep, "deploying"))
    left = present()["namespaces"] - before["namespaces"]
    assert left
    # Cells that are measured survive a job that is interrupted.
    run = _started(sweep.define(parameters=PARAMETERS, measurement=QUICK), "measuring")
    wait_until(lambda: not left & present()["namespaces"], "what was left is reaped")
    wait_until(sweep.staged, "the first cell is done")
    os.killpg(run.pid, signal.SIGINT)
    run.wait(HANGS)
    content = sweep.staged()[0].read_bytes()
    succeeded(sweep.command("cells"))
    assert stayed(before) == {}
    assert content in [path.read_bytes() for path in sweep.cells()]
    assert sweep.staged() == []


def _started(sweep: Sweep, stage: str) -> subprocess.Popen[bytes]:
    others = present()["namespaces"]
    run = sweep.start("cells")

    def reached() -> bool:
        if stage == "deploying":
            return any(name.endswith("-near") for name in present()["namespaces"] - others)
        with contextlib.suppress(psutil.NoSuchProcess):  # other tests measure at the same time
            ours = psutil.Process(run.pid).children(recursive=True)
            return any("gfal-copy" in " ".join(process.cmdline()) for process in ours)
        return False

    wait_until(reached, stage)
    return run


def _kill_job(run: subprocess.Popen[bytes]) -> None:
    [job] = jobs(run)
    job.kill()
    assert run.wait(HANGS) != 0


def _only_whole_cells(sweep: Sweep) -> None:
    for path in sweep.cells():
        assert json.loads(path.read_bytes())["summary"]


def test_the_dataset_opens_with_labels_units_and_holes(swept: Sweep) -> None:
    dataset = xr.open_dataset(swept.results / "dataset.nc")
    axes = {"rtt": 2, "tool": 2, "streams": 2, "repetition": 1}
    assert {name: dataset.sizes[name] for name in dataset.sizes if name != "record"} == axes
    assert dataset.throughput.units == "Gbit/s"
    assert int((dataset.status == 1).sum()) == 7
    hole = dataset.sel(rtt=0, tool="curl", streams=2).squeeze()
    assert (int(hole.status), bool(hole.throughput.isnull())) == (0, True)
    assert 0 < float(dataset.throughput_average.sel(rtt=4, tool="gfal-copy").max()) < 1.05 * 0.2
    samples = xr.open_dataset(swept.results / "dataset.nc", group="samples")
    assert samples.goodput.sel(rtt=4, tool="curl", streams=1).notnull().sum() > 3


def test_a_browser_without_a_network_shows_the_report(swept: Sweep, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = swept.run("--report", str(page))
    assert done.returncode == 0, done.stdout
    picture = tmp_path / "report.png"
    with visiting(page) as visit:

        def shown() -> bool:
            """On a busy machine the picture may be taken before the page has drawn itself."""
            visit.page.screenshot(path=picture)
            return drawn(pixels(picture)) > 0.1

        wait_until(shown, "the report is drawn")
        seen = opened(visit)
    figures = {name: one for name, one in seen.items() if name.endswith(".png")}
    assert {"throughput_heatmap.png", "limits.png", "curves.png"} <= figures.keys()
    for name, figure in figures.items():
        assert figure["width"] > 0, name
        assert "Description" in figure["beside"], name  # its caption
    pages = {name for name, one in seen.items() if one["page"]}
    assert {"surface.html", "limits.html", "curves.html"} <= pages
    table = csv.DictReader(seen["cells.csv"]["table"].splitlines())
    assert sorted(row["status"] for row in table) == ["not_measured", *["ok"] * 7]
    screen = pixels(picture)
    assert screen.shape == (900, 1400, 3)
    assert hues(screen, 1e-4) >= 2  # the marks of the menu, and the workflow's jobs


def test_notebooks_need_no_network_either(swept: Sweep) -> None:
    page = swept.results / "notebooks" / "curves.html"
    fetched = r"""<(?:script|link|img)[^>]*(?:src|href)=["']?https?:[^>]*|url\(["']?https?:"""
    assert re.findall(fetched, page.read_text()) == []
    pictures = embedded(page.read_text())
    assert pictures and all(map(hues, pictures))
    assert widths(page) == [picture.shape[1] for picture in pictures]


SWEEPS: dict[str, dict[str, object]] = {
    "tools": {"tool": ["gfal-copy", "gfal2", "curl", "native", "xrdcp"]},
    "pair": {"tool": ["davix-put", "xrdcp-direct"], "copy_mode": "push"},
    "cluster": {"tool": ["gfal-copy"], "origins": 2, "xrootd": ["system", "5.8.1"]},
}


def test_all_cells_are_measured_in_a_hostile_environment(tmp_path: Path) -> None:
    sweeps = [Sweep(tmp_path, name) for name in SWEEPS]
    for sweep in sweeps:
        sweep.define(parameters=PARAMETERS | {"streams": 1} | SWEEPS[sweep.name], measurement=QUICK)
    asked = f"sweep={','.join(f'{tmp_path}/{name}.yaml' for name in SWEEPS)}"
    run = [sys.executable, "-m", "snakemake", "cells", "--config", asked, f"results={tmp_path}/results"]
    command = hostile.machine(tmp_path, [ROOT, tmp_path], run)
    done = finished(command, env=hostile.environment(tmp_path))
    cells = [json.loads(path.read_bytes()) for sweep in sweeps for path in sweep.cells()]
    assert len(cells) == 9, done.stdout
    assert [cell["message"] for cell in cells if cell["status"] != "ok"] == [], done.stdout
