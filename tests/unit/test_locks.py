# SPDX-License-Identifier: Apache-2.0
"""Locks: who may take them, and whom they name."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tpcsweep.locks import HeldError, holder, take, take_machine

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
