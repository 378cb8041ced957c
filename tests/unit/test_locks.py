# SPDX-License-Identifier: Apache-2.0
"""Locks, whom they name, processes that end with their starter, and what each kind gets of the user's environment."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from tpcsweep.common import processes, signals
from tpcsweep.common.locks import LockedError, lock_file, lock_holder, lock_machine
from tpcsweep.deploying.xrootd.releases import SYSTEM, Release
from tpcsweep.measuring import provenance
from tpcsweep.measuring.tools.registry import TOOLS
from tpcsweep.measuring.tools.tool import Credentials

from tests.support import hostile
from tests.support.workflow import finished, gone, wait_until

HOLD = """
import pathlib, sys
from tpcsweep.common.locks import lock_file, lock_machine
name = sys.argv[1]
lock = lock_file(pathlib.Path(name), "rtt=20 of sweep one") if "/" in name else lock_machine(name)
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


def test_a_lock_on_a_file_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    file, told = tmp_path / "lock", list[str]()
    with held(file) as process:
        theirs = f"rtt=20 of sweep one, pid {process.pid}"
        with pytest.raises(LockedError, match=f"^{theirs}$"):
            lock_file(file)
        assert lock_holder(file) == process.pid
        ours = lock_file(file, "me", lambda name: (told.append(name), process.kill()))
    assert told == [theirs]
    assert (file.read_text(), lock_holder(file)) == (f"me, pid {os.getpid()}", os.getpid())
    file.write_text("")  # as before the holder has said who it is
    with pytest.raises(LockedError, match=r"^another process$"):
        lock_file(file)
    os.close(ours)
    assert lock_holder(file) is None


@pytest.mark.parametrize(
    ("folder", "mode"), [(0o755, 0o600), (0o711, 0o600), (0o775, 0o660), (0o1777, 0o666)]
)
def test_only_users_who_may_write_beside_a_lock_may_open_it(tmp_path: Path, folder: int, mode: int) -> None:
    tmp_path.chmod(folder)
    new, existing = tmp_path / "new", tmp_path / "existing"
    existing.touch(0o644)
    for file in (new, existing):
        os.close(lock_file(file))
        assert stat.S_IMODE(file.stat().st_mode) == mode


def test_the_machines_lock_is_one_for_all_and_goes_with_a_holder_that_is_killed() -> None:
    name, told = f"tpcsweep-test-{os.getpid()}", []
    with held(name) as process:
        with pytest.raises(LockedError, match=f"^a process of this user, pid {process.pid}$"):
            lock_machine(name)
        os.close(lock_machine(name, lambda name: (told.append(name), process.kill())))
    assert told == [f"a process of this user, pid {process.pid}"]
    os.close(lock_machine(name))


JOB = """
import os, pathlib, sys, time
from tpcsweep.common import signals
signals.end_with_snakemake()
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
STARTER = """
import subprocess, sys
from tpcsweep.common import signals
signals.announce_pid()
subprocess.run(["bash", "-c", '"$0" -c "$1" "$2"; true', sys.executable, *sys.argv[1:]])
"""


def test_a_job_that_a_shell_has_started_is_not_taken_for_an_orphan(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", STARTER, JOB, str(file)]) as starter:
        wait_until(lambda: file.exists() and file.read_text(), "the job runs")
        job = psutil.Process(int(file.read_text()))
        try:
            assert job.parent() != psutil.Process(starter.pid)
            assert not gone(job.pid)
        finally:
            job.kill()


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
        signals.ignore_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        signals.restore_signals()
    assert ended.value.code == 128 + signal.SIGTERM
    assert [signal.getsignal(number) for number in signals.ENDING] == before
    with signals.interruptible():  # it is forgotten with the block that ignores it
        signals.ignore_signals()
        os.kill(os.getpid(), signal.SIGTERM)
    with signals.interruptible():
        signals.restore_signals()


HERE = Path("/h")
KINDS: dict[str, Callable[[], Mapping[str, str]]] = {
    "measured": partial(processes.measured_environment, HERE),
    "system": processes.system_environment,
    "python": partial(processes.python, HERE),
    **{
        f"{name}, {authorization}": partial(tool.environment, Credentials(Path("/c"), authorization), HERE)
        for name, tool in TOOLS.items()
        for authorization in ("usual", "none")
    },
}
"""What makes the environment of each kind of process."""
PASSED = {"system": {"HOME", "TMPDIR"}, "python": {"TMPDIR", "LD_LIBRARY_PATH"}}
"""The variables that some kinds take over from the user."""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    environment = hostile.environment(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    return environment


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_process_gets_only_what_it_needs(theirs: dict[str, str], kind: str) -> None:
    given = KINDS[kind]()
    same = {name for name, value in given.items() if theirs.get(name) == value}
    assert same - {"PATH"} == PASSED.get(kind, set())
    assert given["LC_ALL"] == "C.UTF-8"


def test_builds_get_proxies_and_nothing_that_changes_them(theirs: dict[str, str]) -> None:
    given = processes.build_environment()
    assert given["https_proxy"] == theirs["https_proxy"]
    gone = {"LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "C_INCLUDE_PATH", "TAR_OPTIONS"}
    assert (gone | {"CFLAGS", "GIT_DIR"}) & set(given) == set()
    assert given["LC_ALL"] == "C.UTF-8"


def test_programs_that_debian_keeps_from_users_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert processes.system_environment()["PATH"] == "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    assert processes.full_environment()["PATH"] == "/usr/bin:/bin"


@pytest.mark.usefixtures("theirs")
def test_the_user_has_a_say_in_nothing_that_is_run(tmp_path: Path) -> None:
    assert Release(SYSTEM).version()  # the loader's complaints about LD_PRELOAD would be part of it
    before = os.umask(0o077)
    try:
        processes.run(["touch", tmp_path / "commands"])
        processes.run(["touch", tmp_path / "users"], processes.full_environment(), umask=-1)
        with processes.readable_umask():
            (tmp_path / "ours").touch()
        (tmp_path / "mine").touch()
    finally:
        assert os.umask(before) == 0o077
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("commands", "users", "ours", "mine")}
    assert modes == {"commands": 0o644, "users": 0o600, "ours": 0o644, "mine": 0o600}


def test_a_command_reads_no_terminal_and_may_print_anything() -> None:
    assert processes.run(["sh", "-c", "cat; printf '\\377'"]).stdout == "\ufffd"
    assert processes.run(["cat"], input="given").stdout == "given"
    with pytest.raises(subprocess.CalledProcessError):
        processes.run(["false"], check=True)


IN_ASCII = r"""
from pathlib import Path
import sys
from tpcsweep.common.processes import Commands
from tpcsweep.running.studies import exit_on_errors
Commands(Path(sys.argv[1])).note("20 \u2192 40 ms")
with exit_on_errors(sys.argv[1], ValueError):
    raise ValueError("\u2265 5 s")
"""


def test_logs_hold_every_letter_whatever_the_users_locale(tmp_path: Path) -> None:
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = processes.python(tmp_path) | ascii_alone
    done = processes.run([sys.executable, "-c", IN_ASCII, tmp_path / "log"], environment)
    assert (done.returncode, (tmp_path / "log").read_text("utf-8")) == (1, "20 → 40 ms\n≥ 5 s\n"), done.stderr


def test_the_commit_is_never_that_of_a_repository_around_an_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message=theirs"]):
        processes.run([*git, *command], check=True)
    monkeypatch.setenv("TPCSWEEP_COMMIT", "of the image")
    found = []
    for root in (tmp_path, tmp_path / "venv/lib"):
        root.mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(provenance, "CHECKOUT", root)
        found.append(provenance.commit.__wrapped__())
    assert len(found[0]) == 40
    assert found[1] == "of the image"
