# SPDX-License-Identifier: Apache-2.0
"""An ordinary user measures, and whatever is killed leaves nothing."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tpcsweep.common.locks import LockedError, lock_machine
from tpcsweep.testbeds.netns import ownership

from tests.support.leftovers import present, stayed
from tests.support.users import TUN, User, made
from tests.support.workflow import HANGS, ROOT, finished, started, wait_until

NOT_COPIED = (".git", ".venv", "results", "build", ".snakemake", "__pycache__", ".*_cache", ".hypothesis")
LONG = {
    "description": "A cell in whose midst something is done.",
    "parameters": {"rtt": "4 ms", "bandwidth": "200 Mbit/s", "file_size": "8 MiB"},
    "measurement": {"until": "seconds", "seconds": "10 min"},
}


class Measurer(User):
    """A user with a checkout."""

    @property
    def checkout(self) -> Path:
        return self.home / "checkout"

    def snakemake(self, *arguments: str) -> list[str]:
        environment = self.checkout / ".venv"
        prepared = f"{TUN}mkdir -p {environment} && mount --bind '{sys.prefix}' {environment}"
        command = [".venv/bin/python", "-m", "snakemake", *arguments]
        return self.command(self.checkout, command, prepared, PYTHONPATH=f"{self.checkout}/workflow")

    def job(self) -> int:
        """The process of the running job that is outside of the namespaces it has made."""
        found = self.processes()
        pythons = [pid for pid, words in found.items() if "python" in words[0]]
        jobs = [pid for pid in pythons if found[pid][-1].endswith(".deployment.py")]
        [job] = [pid for pid in jobs if Path(f"/proc/{pid}/ns/pid").samefile("/proc/self/ns/pid")]
        return job


@pytest.fixture(scope="module")
def user() -> Iterator[Measurer]:
    with made(Measurer, "tpctest") as user:
        shutil.copytree(ROOT, user.checkout, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        subprocess.run(["chown", "--recursive", f"{user.name}:", str(user.home)], check=True)
        yield user


@contextlib.contextmanager
def running(user: Measurer) -> Iterator[subprocess.Popen[bytes]]:
    """A run of a cell that does not end by itself; its output is in `output.log`."""
    (user.checkout / "config/sweeps/long.yaml").write_text(yaml.safe_dump(LONG))
    run = started(user.snakemake("--config", "sweep=long", "--", "cells"), user.checkout / "output.log")
    try:
        yield run
    finally:
        run.kill()
        user.kill()
        run.wait()
        _all_end(user)


def _alone(look: Callable[..., dict[str, set[str]]], *given: dict[str, set[str]]) -> dict[str, set[str]]:
    """What deployments have put on the machine, while none of root's is up."""
    with ownership.exclusive("a test", print):
        return look(*given)


def _all_end(user: Measurer) -> None:
    wait_until(lambda: not user.processes(), "the end of all that was started")


def _moves_a_file(user: Measurer) -> None:
    def moves() -> bool:
        return any("gfal-copy" in word for words in user.processes().values() for word in words[:5])

    wait_until(moves, "a transfer runs", HANGS)


def test_a_user_measures_a_sweep_to_its_dataset_and_nothing_stays(user: Measurer) -> None:
    before = _alone(present)
    run = finished(user.snakemake("--config", "sweep=smoke", "--", "results/smoke/dataset.nc"))
    assert run.returncode == 0, run.stdout
    assert (user.checkout / "results/smoke/dataset.nc").stat().st_uid == user.number
    first, second = (user.checkout / "results/smoke/cells").rglob("*.json")
    for path in (first, second):
        cell = json.loads(path.read_bytes())
        assert cell["status"] == "ok", cell["message"]
        assert cell["provenance"]["cgroup_version"] == 0
        for figure in ("throughput", "source_cpu", "destination_cpu", "client_cpu"):
            assert cell["summary"][figure] > 0, figure
    assert user.processes() == {}
    assert _alone(stayed, before) == {}


def test_a_limit_of_no_namespaces_is_named() -> None:
    """A limit is that of a user namespace, too: the machine's stays as it is."""
    ask = "from tpcsweep.deploying.linux import rootless; print(rootless.namespace_refusal())"
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    user = ["unshare", "--user", "--map-user=1000", "--keep-caps"]
    command = [*user, "sh", "-c", script, "sh", sys.executable, "-c", ask]
    said = subprocess.check_output(command, text=True)
    assert said.startswith("sysctl user.max_user_namespaces is 0: as root, sysctl -w")


def test_a_user_waits_while_root_measures_and_kill_9_of_his_job_leaves_nothing(user: Measurer) -> None:
    before = _alone(present)
    with contextlib.ExitStack() as runs:
        with ownership.exclusive("a test", print):
            run = runs.enter_context(running(user))
            output = user.checkout / "output.log"
            waits = "waiting for a process of another user"
            wait_until(lambda: run.poll() is not None or waits in output.read_text(), waits, HANGS)
            assert waits in output.read_text()
        _moves_a_file(user)
        with pytest.raises(LockedError, match=f"a process of user {user.number}, pid "):
            lock_machine(ownership.MACHINE)
        os.kill(user.job(), signal.SIGKILL)
        assert run.wait(HANGS) != 0
        _all_end(user)
        assert _alone(stayed, before) == {}


def test_kill_9_of_snakemake_ends_all_that_it_has_started(user: Measurer) -> None:
    before = _alone(present)
    with running(user) as run:
        _moves_a_file(user)
        run.kill()
        run.wait()
        _all_end(user)
        assert _alone(stayed, before) == {}
