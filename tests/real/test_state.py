# SPDX-License-Identifier: Apache-2.0
"""What deployments leave on a machine, and where, whoever removes it; and quotas as this kernel takes them."""

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tpcsweep.configuration.testbeds import Netns
from tpcsweep.linux import cgroups
from tpcsweep.linux.cgroups import Cgroup, hierarchy
from tpcsweep.testbeds import TeardownError
from tpcsweep.testbeds.netns import state
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.testbeds.netns.testbed import reap

from tests.support.workflow import wait_until

Patch = pytest.MonkeyPatch


@pytest.fixture
def group() -> Iterator[Cgroup]:
    made = Cgroup(hierarchy(), f"tpc-test-{os.getpid()}").create()
    yield made
    made.remove()


@pytest.mark.parametrize("cores", [2.0, 0.1, 0.01, 0.0025, 0.001])
def test_the_kernel_takes_every_quota_that_may_be_asked_for(group: Cgroup, cores: float) -> None:
    for fewer in (cores, max(cores / 2, 0.001)):  # whatever was in force before
        group.limit(quota := cgroups.quota(fewer))
        assert group.quota() == quota


def test_nobody_else_may_lock_the_machine_and_servers_leave_nothing_in_tmp(pair: NetnsSite) -> None:
    assert stat.S_IMODE((state.STATE / "lock").stat().st_mode) == 0o600
    began = (state.STATE / pair.prefix.removeprefix("tpc-")).stat().st_ctime
    assert [path for path in Path("/tmp").glob("*.env") if path.stat().st_mtime > began] == []


def _left_behind(logs: str) -> Path:
    """What is left of a deployment that had a server, and whose owner wanted logs there."""
    folder = state.create_deployment(state.Owner("one", "rtt=5", 1, logs))
    log = folder / "nodes" / "src1" / "xrootd.src1.log"
    log.parent.mkdir(parents=True)
    log.write_text("said\n")
    return folder


def test_logs_of_what_is_left_go_to_its_owner_whoever_removes_it(tmp_path: Path, monkeypatch: Patch) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for clone in (mine, other):
        (clone / "results/logs").mkdir(parents=True)
    monkeypatch.chdir(mine)
    folder = _left_behind("results/logs")
    monkeypatch.chdir(other)
    assert reap(Netns(kind="netns")) == [f"{folder.name}: rtt=5 of sweep one"]
    assert [path.name for path in (mine / "results/logs").iterdir()] == ["xrootd.src1.log"]
    assert list((other / "results/logs").iterdir()) == []


def test_logs_of_results_that_are_gone_make_no_folder(tmp_path: Path) -> None:
    _left_behind(str(tmp_path / "gone" / "logs"))
    assert len(reap(Netns(kind="netns"))) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("owner", [None, "", "[]", json.dumps({"logs": "results/logs"})])
def test_what_is_left_is_removed_of_any_owner(tmp_path: Path, monkeypatch: Patch, owner: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    folder = _left_behind("logs")
    (folder / "owner.json").unlink()
    if owner is not None:  # or it was killed at its very beginning
        (folder / "owner.json").write_text(owner)
    assert reap(Netns(kind="netns")) == [f"{folder.name} (owner unknown)"]
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_deployment_with_a_process_that_survives_is_reaped_next(tmp_path: Path, monkeypatch: Patch) -> None:
    folder = state.create_deployment(state.Owner("one", "rtt=5", 1, str(tmp_path)))
    group = Cgroup(hierarchy(), f"{state.prefix(folder.name)}-src1").create()
    with subprocess.Popen([*group.entry(), "sleep", "60"]) as process:
        wait_until(group.pids, "it is in its group")
        with monkeypatch.context() as patched:
            patched.setattr(state, "KILL_SECONDS", 0.5)
            patched.setattr("os.kill", lambda *_: None)
            with pytest.raises(TeardownError, match="processes survive SIGKILL"):
                state.teardown(folder)
        assert process.poll() is None
        assert reap(Netns(kind="netns")) == [f"{folder.name}: rtt=5 of sweep one"]
        assert process.wait() == -signal.SIGKILL
    assert not state.processes(state.prefix(folder.name))
