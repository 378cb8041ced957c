# SPDX-License-Identifier: Apache-2.0
"""Locks, whom they name, and processes that end with the one that has started them."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tpcsweep.linux import signals
from tpcsweep.locks import HeldError, holder, take, take_machine

from tests.support.workflow import finished, gone, wait_until

HOLD = """
import pathlib, sys
from tpcsweep.locks import take, take_machine
name = sys.argv[1]
lock = take(pathlib.Path(name), "rtt=20 of sweep one") if "/" in name else take_machine(name)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(name: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process holds the lock on a file, or the machine's lock of a name."""
    command = [sys.executable, "-c", HOLD, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.stdin.close()


def test_a_lock_that_is_held_says_by_whom(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with held(file) as process:
        with pytest.raises(HeldError, match=f"^rtt=20 of sweep one, pid {process.pid}$"):
            take(file)
        assert holder(file) == process.pid
        file.write_text("")  # as before the holder has said who it is
        with pytest.raises(HeldError, match=r"^another process$"):
            take(file)
    assert holder(file) is None
    os.close(take(file))


def test_who_waits_for_a_lock_is_told_for_whom_and_gets_it(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    told: list[str] = []
    with held(file) as process:
        os.close(take(file, "me", lambda name: (told.append(name), process.kill())))  # type: ignore[func-returns-value]
    assert told == [f"rtt=20 of sweep one, pid {process.pid}"]
    assert file.read_text() == f"me, pid {os.getpid()}"


@pytest.mark.parametrize(
    ("folder", "mode"), [(0o755, 0o600), (0o711, 0o600), (0o775, 0o660), (0o1777, 0o666)]
)
def test_only_who_may_write_beside_a_lock_may_open_it(tmp_path: Path, folder: int, mode: int) -> None:
    tmp_path.chmod(folder)
    new, earlier = tmp_path / "new", tmp_path / "earlier"
    earlier.touch(0o644)  # as an earlier version made it
    for file in (new, earlier):
        os.close(take(file))
        assert stat.S_IMODE(file.stat().st_mode) == mode


def test_the_machines_lock_is_one_for_all_and_goes_with_a_holder_that_is_killed() -> None:
    name, told = f"tpcsweep-test-{os.getpid()}", []
    with held(name) as process:
        with pytest.raises(HeldError, match=f"^a process of this user, pid {process.pid}$"):
            take_machine(name)
        os.close(take_machine(name, lambda name: (told.append(name), process.kill())))  # type: ignore[func-returns-value]
    assert told == [f"a process of this user, pid {process.pid}"]
    os.close(take_machine(name))


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
