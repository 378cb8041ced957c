# SPDX-License-Identifier: Apache-2.0
"""`snakemake --profile slurm` on a real Slurm: a simulated sweep, what is cancelled on its way, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tpcsweep.running.results import read

from tests.support.slurm import NODES, Slurm, running
from tests.support.workflow import Sweep, wait_until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """Below /tmp, as pytest's folders have longer paths than sockets may have."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        running(Path(folder)) as up,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("SLURM_CONF", str(up.configuration))
        yield up


@dataclass(frozen=True)
class Queued(Sweep):
    """A simulated sweep whose deployments, of one cell each, go into Slurm's queue."""

    @property
    def results(self) -> Path:
        return self.folder / "results" / f"{self.name}@simulation"

    def command(self, *arguments: str) -> list[str]:
        profile = ["--profile", "slurm", "--slurm-logdir", str(self.folder / "slurm_logs")]
        soon = ["--slurm-init-seconds-before-status-checks", "1"]
        return [*super().command(*profile, *soon, *arguments), "testbed=simulation"]

    def marks(self) -> list[Path]:
        """What says that jobs of this sweep may be in the queue."""
        return list(self.results.glob(".slurm-*"))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Queued:
    """Three deployments; tests follow each other on it."""
    return Queued(tmp_path_factory.mktemp("queued")).define(parameters={"rtt": ["5 ms", "10 ms", "20 ms"]})


def when(cell: Path) -> str:
    """When a cell was simulated."""
    return str(read(cell)["provenance"]["started"])


def ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for a Snakemake that was started."""
    return process.wait(timeout=180)


def test_a_job_that_is_cancelled_loses_no_cell(slurm: Slurm, sweep: Queued) -> None:
    # All of the deployments are one job.
    started = sweep.start("cells")
    wait_until(sweep.cells, "a cell")
    [job] = slurm.queue()
    slurm.ask("scancel", job)
    assert ended(started) == 1, sweep.output()
    [log] = sweep.folder.glob(f"slurm_logs/**/{job}.log")
    assert str(log) in sweep.output()
    assert f"JOB {job} ON {NODES[0]} CANCELLED" in log.read_text()
    assert "cell(s) put back that had been measured before a job failed" in sweep.output()
    assert 1 <= len(sweep.cells()) < 3
    assert slurm.queue() == []
    assert sweep.marks() == []


def test_a_sweep_goes_on_to_its_dataset_and_its_report(slurm: Slurm, sweep: Queued) -> None:
    before = {cell: when(cell) for cell in sweep.cells()}
    done = sweep.run("--group-components", "simulation=1")
    assert done.returncode == 0, done.stdout
    assert {cell: when(cell) for cell in before} == before
    assert len(sweep.cells()) == 3
    # One for each deployment that was missing, one for all that is made of the dataset.
    assert list(slurm.ended().values()).count("COMPLETED") == 3 - len(before) + 1
    for file in ("dataset.nc", "report.html", "index.html"):
        assert (sweep.results / file).stat().st_size > 0
    assert sweep.marks() == []


def test_one_cell_alone_is_simulated_again_whatever_a_killed_snakemake_has_left(
    slurm: Slurm, sweep: Queued
) -> None:
    before = {cell: when(cell) for cell in sweep.cells()}
    again = sweep.cells()[0]
    again.unlink()
    slurm.ask("scontrol", "update", "NodeName=ALL", "State=DRAIN", "Reason=test")
    killed = sweep.start("cells")
    wait_until(slurm.queue, "a job that waits")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    [left] = slurm.queue()
    started = sweep.start("cells")
    said = "1 job(s) ended that a killed snakemake had left in Slurm's queue"
    wait_until(lambda: said in sweep.output(), "the end of what was left")
    assert slurm.ended()[left] == "CANCELLED"
    slurm.ask("scontrol", "update", "NodeName=ALL", "State=RESUME")
    assert ended(started) == 0, sweep.output()
    after = {cell: when(cell) for cell in sweep.cells()}
    assert {cell for cell in before if before[cell] != after[cell]} == {again}


def test_ctrl_c_leaves_no_job_in_the_queue(slurm: Slurm, sweep: Queued) -> None:
    for cell in sweep.cells():
        cell.unlink()
    assert slurm.queue() == []
    # Some may be submitted while the others are cancelled.
    started = sweep.start("cells", "--group-components", "simulation=1")
    wait_until(slurm.queue, "a job")
    os.killpg(started.pid, signal.SIGINT)
    assert ended(started) == 1, sweep.output()
    assert slurm.queue() == []
    assert sweep.marks() == []
