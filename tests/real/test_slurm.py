# SPDX-License-Identifier: Apache-2.0
"""`snakemake --profile slurm` on a real Slurm: a simulated study, a job that is cancelled, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.slurm import Slurm, running
from tests.support.workflow import HANGS, Sweep, wait_until

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
    """A simulated sweep that is computed by jobs of Slurm."""

    @property
    def results(self) -> Path:
        return self.folder / "results" / f"{self.name}@simulation"

    def command(self, *arguments: str) -> list[str]:
        profile = ["--profile", "slurm", "--slurm-logdir", str(self.folder / "slurm_logs")]
        soon = ["--slurm-init-seconds-before-status-checks", "1"]
        return [*super().command(*profile, *soon, *arguments), "testbed=simulation"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Queued:
    """Tests follow each other on it."""
    parameters = {"rtt": ["5 ms", "20 ms"], "streams": [1, 2]}
    return Queued(tmp_path_factory.mktemp("queued")).define(parameters=parameters)


def computing(slurm: Slurm, sweep: Queued, started: subprocess.Popen[bytes]) -> str:
    """Wait for the job to compute and for sbatch to end, and return the job's number.

    The job is in the queue before sbatch tells Snakemake its number. Ctrl-C between the two would leave the job there.
    """
    wait_until(slurm.queue, "a job")
    [job] = slurm.queue()

    def has_begun() -> bool:
        logs = (sweep.folder / "slurm_logs").rglob(f"{job}.log")
        return any(log.stat().st_size for log in logs) and not submitting()

    def submitting() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(started.pid).children(recursive=True)
            return any(child.name() == "sbatch" for child in children)
        return True

    wait_until(has_begun, "a job that computes")
    return job


def ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for a Snakemake that was started."""
    return process.wait(HANGS)


def assert_cancelled(slurm: Slurm, job: str) -> None:
    """Wait for the job's processes to end, until when Slurm keeps it in the queue, and check that it was cancelled."""
    wait_until(lambda: not slurm.queue(), "an empty queue")
    assert slurm.ended()[job] == "CANCELLED"


def test_ctrl_c_leaves_no_job_in_the_queue(slurm: Slurm, sweep: Queued) -> None:
    started = sweep.start()
    job = computing(slurm, sweep, started)
    os.killpg(started.pid, signal.SIGINT)
    assert ended(started) == 1, sweep.output()
    assert_cancelled(slurm, job)


def test_a_job_that_is_cancelled_fails_the_run_which_names_its_log(slurm: Slurm, sweep: Queued) -> None:
    started = sweep.start()
    job = computing(slurm, sweep, started)
    slurm.ask("scancel", job)
    assert ended(started) == 1, sweep.output()
    assert f"{job}.log" in sweep.output()
    assert_cancelled(slurm, job)


def test_the_next_run_ends_with_the_page_and_one_job_has_computed_the_study(
    slurm: Slurm, sweep: Queued
) -> None:
    done = sweep.run()
    assert done.returncode == 0, done.stdout
    # One for the study, and one for the list of studies.
    assert [*slurm.ended().values()].count("COMPLETED") == 2
    for file in ("dataset.nc", "models.json", "index.html"):
        assert (sweep.results / file).stat().st_size > 0
    assert "Nothing to be done" in sweep.run("-n").stdout
