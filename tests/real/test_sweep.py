"""A sweep from configuration to cells, on real servers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.leftovers import present, stayed
from tests.support.workflow import Sweep, wait_until

pytestmark = pytest.mark.real

QUICK = {"min_time": "1 s", "max_time": "2 s", "precision": "50 %"}
PARAMETERS = {"rtt": "4 ms", "bandwidth": "500 Mbit/s", "file_size": "8 MiB", "streams": [1, 2]}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep of one deployment and two cells that has run."""
    sweep = Sweep(tmp_path_factory.mktemp("sweep")).define(parameters=PARAMETERS, measurement=QUICK)
    before = present()
    done = sweep.run("cells")
    assert done.returncode == 0, done.stdout
    assert stayed(before) == {}
    return sweep


def test_each_cell_has_a_file_with_what_was_measured(measured: Sweep) -> None:
    cells = [json.loads(path.read_bytes()) for path in measured.cells()]
    assert [cell["spec"]["parameters"]["streams"] for cell in cells] == [1, 2]
    for cell in cells:
        summary = cell["summary"]
        assert cell["status"] == "ok"
        assert 0.05 < summary["throughput"] < 0.5  # of a path of 0.5 Gbit/s
        assert summary["throughput"] < summary["wire_throughput"] < 0.52
        assert summary["transfers"] > 0
        assert summary["transfers_failed"] == 0
        assert abs(summary["rtt_idle"] - 4) <= 0.3
        assert cell["provenance"]["path"]["emulator"] in ("netem", "delayline")
        assert cell["provenance"]["software"]["xrootd-server"]
        assert len(cell["samples"]["time"]) == len(cell["samples"]["goodput"]) > 8


def test_a_second_run_finds_nothing_to_do(measured: Sweep) -> None:
    assert "Nothing to be done" in measured.run("cells").stdout


def test_a_removed_cell_is_measured_again_and_no_other(measured: Sweep) -> None:
    gone, kept = measured.cells()
    content, old = kept.read_bytes(), gone.read_bytes()
    gone.unlink()
    done = measured.run("cells")
    assert done.returncode == 0, done.stdout
    assert gone.read_bytes() != old
    assert kept.read_bytes() == content


def test_another_value_on_an_axis_measures_that_alone(measured: Sweep) -> None:
    before = {path: path.read_bytes() for path in measured.cells()}
    measured.define(parameters={**PARAMETERS, "streams": [1, 2, 3]}, measurement=QUICK)
    done = measured.run("cells")
    assert done.returncode == 0, done.stdout
    assert len(measured.cells()) == 3
    assert {path: path.read_bytes() for path in before} == before


def test_another_fixed_parameter_measures_all_again(measured: Sweep) -> None:
    measured.define(parameters={**PARAMETERS, "streams": [1, 2, 3], "file_size": "4 MiB"}, measurement=QUICK)
    done = measured.run("cells")
    assert done.returncode == 0, done.stdout
    sizes = [json.loads(path.read_bytes())["spec"]["parameters"]["file_size"] for path in measured.cells()]
    assert sizes == [4 << 20] * 3


def test_stale_cells_are_measured_also_after_a_job_that_failed(measured: Sweep) -> None:
    measured.define(parameters={**PARAMETERS, "streams": [1, 2, 3], "file_size": "2 MiB"}, measurement=QUICK)
    run = measured.start("cells")
    wait_until(lambda: any("gfal-copy" in name for name in _tools()), "a transfer runs")
    _job(run).kill()  # Snakemake puts the old cells back, and forgets what they were made with
    run.wait()
    done = measured.run("cells")
    assert done.returncode == 0, done.stdout
    sizes = [json.loads(path.read_bytes())["spec"]["parameters"]["file_size"] for path in measured.cells()]
    assert sizes == [2 << 20] * 3


def test_no_secret_is_in_any_result(measured: Sweep) -> None:
    text = "".join(path.read_text(errors="replace") for path in measured.results.rglob("*") if path.is_file())
    for mark in ("PRIVATE KEY", "MDAx"):  # a macaroon begins with the length of its first packet, base64
        assert mark not in text


@pytest.mark.parametrize("stage", ["deploying", "measuring"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_to_snakemake_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, stage: str
) -> None:
    before = present()
    sweep, run = _started(tmp_path, stage)
    if number == signal.SIGINT:  # Ctrl-C goes to everyone in the terminal's foreground
        os.killpg(run.pid, number)
    else:
        run.send_signal(number)
    wait_until(lambda: run.poll() is not None, "snakemake ends")
    wait_until(lambda: not stayed(before), f"nothing is left of {sweep.output()}")
    _only_whole_cells(sweep)
    done = sweep.run("cells")
    assert done.returncode == 0, done.stdout
    assert len(sweep.cells()) == 3


@pytest.mark.parametrize("stage", ["deploying", "measuring"])
@pytest.mark.parametrize("by", ["reap", "cells"])
def test_a_job_that_was_killed_is_cleaned_up_by_reap_or_the_next_run(
    tmp_path: Path, stage: str, by: str
) -> None:
    before = present()
    sweep, run = _started(tmp_path, stage)
    _job(run).kill()
    wait_until(lambda: run.poll() is not None, "snakemake ends")
    assert run.returncode != 0
    assert present()["namespaces"] != before["namespaces"]  # or there was nothing to clean up
    done = sweep.run(by)
    assert done.returncode == 0, done.stdout
    assert stayed(before) == {}
    _only_whole_cells(sweep)


def test_cells_that_were_measured_survive_a_job_that_is_interrupted(tmp_path: Path) -> None:
    sweep, run = _started(tmp_path, "measuring")
    wait_until(sweep.cells, "the first cell is done")
    os.killpg(run.pid, signal.SIGINT)
    wait_until(lambda: run.poll() is not None, "snakemake ends")
    [rescued] = (sweep.results / "rescued").iterdir()
    content = rescued.read_bytes()
    done = sweep.run("cells")
    assert done.returncode == 0, done.stdout
    assert content in [path.read_bytes() for path in sweep.cells()]
    assert not (sweep.results / "rescued").exists()


def test_a_second_run_on_the_same_results_is_refused(tmp_path: Path) -> None:
    sweep, run = _started(tmp_path, "measuring")
    refused = sweep.run("cells")
    run.send_signal(signal.SIGINT)
    run.wait()
    assert refused.returncode != 0
    assert f"another snakemake (pid {run.pid}) writes here" in refused.stdout


def test_namespaces_of_others_are_never_touched(tmp_path: Path) -> None:
    other = f"tpc-mine-{os.getpid()}"  # not ours, whatever it is called
    subprocess.run(["ip", "netns", "add", other], check=True)
    try:
        guest = subprocess.Popen(["nsenter", f"--net=/run/netns/{other}", "sleep", "60"])
        sweep, run = _started(tmp_path, "measuring")
        _job(run).kill()
        run.wait()
        assert sweep.run("reap").returncode == 0
        assert guest.poll() is None
        assert other in present()["namespaces"]
    finally:
        guest.kill()
        guest.wait()
        subprocess.run(["ip", "netns", "delete", other], check=True)


def _started(folder: Path, stage: str) -> tuple[Sweep, subprocess.Popen[bytes]]:
    """A sweep of three cells that has reached a stage."""
    measurement = {**QUICK, "min_time": "2 s"}
    sweep = Sweep(folder).define(parameters={**PARAMETERS, "streams": [1, 2, 3]}, measurement=measurement)
    run = sweep.start("cells")
    if stage == "deploying":
        wait_until(
            lambda: any(name.endswith("-near") for name in present()["namespaces"]), "a namespace is there"
        )
    else:
        wait_until(lambda: any("gfal-copy" in name for name in _tools()), "a transfer runs")
    return sweep, run


def _tools() -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def _job(run: subprocess.Popen[bytes]) -> psutil.Process:
    for process in psutil.Process(run.pid).children():
        with contextlib.suppress(psutil.Error):
            if any("deployment.py" in word for word in process.cmdline()):
                return process
    raise AssertionError("no job runs")


def _only_whole_cells(sweep: Sweep) -> None:
    for path in sweep.cells():
        assert json.loads(path.read_bytes())["summary"]
