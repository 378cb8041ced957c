# SPDX-License-Identifier: Apache-2.0
"""Processes that end with the one that has started them, however that ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tpcsweep.linux import signals

from tests.support.workflow import finished, gone, wait_until

JOB = """
import os, pathlib, sys, time
from tpcsweep.linux import signals
signals.end_with_snakemake()
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
STARTS = """
import subprocess, sys
from tpcsweep.linux import signals
signals.tell_jobs()
subprocess.run({command}, check=False)
"""


def started_by(folder: Path, command: str) -> tuple[subprocess.Popen[bytes], int]:
    """A process that has started a job by a command, and the job's pid."""
    file = folder / "pid"
    starter = subprocess.Popen([sys.executable, "-c", STARTS.format(command=command), JOB, str(file)])
    wait_until(lambda: file.exists() and file.read_text(), "the job runs")
    return starter, int(file.read_text())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_ends_with_its_snakemake(tmp_path: Path, how: signal.Signals) -> None:
    starter, job = started_by(tmp_path, "[sys.executable, '-c', *sys.argv[1:]]")
    starter.send_signal(how)
    starter.wait(60)
    wait_until(lambda: gone(job), "the job ends")


def test_a_job_that_a_shell_has_started_is_not_taken_for_an_orphan(tmp_path: Path) -> None:
    shell = "['bash', '-c', '\"$0\" -c \"$1\" \"$2\"; true', sys.executable, *sys.argv[1:]]"
    starter, job = started_by(tmp_path, shell)
    try:
        assert psutil.Process(job).parent() != psutil.Process(starter.pid)
        assert not gone(job)
    finally:
        os.kill(job, signal.SIGKILL)
        starter.wait(60)


def test_a_job_that_begins_when_its_snakemake_has_ended_ends_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    environment = os.environ | {"TPCSWEEP_STARTER": str(ended.pid)}
    job = finished([sys.executable, "-c", JOB, str(tmp_path / "pid")], 60, env=environment)
    assert job.returncode == -signal.SIGTERM
    assert not (tmp_path / "pid").exists()


def test_a_signal_that_comes_while_it_is_ignored_takes_effect_afterwards() -> None:
    before = [signal.getsignal(number) for number in signals.ENDING]
    with pytest.raises(SystemExit) as ended, signals.interruptible():
        signals.ignore()
        os.kill(os.getpid(), signal.SIGTERM)
        signals.heed()
    assert ended.value.code == 128 + signal.SIGTERM
    assert [signal.getsignal(number) for number in signals.ENDING] == before
    with signals.interruptible():  # it is forgotten with the block that ignores it
        signals.ignore()
        os.kill(os.getpid(), signal.SIGTERM)
    with signals.interruptible():
        signals.heed()
