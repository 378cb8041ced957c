# SPDX-License-Identifier: Apache-2.0
"""What happens when a deployment breaks, and what stays of it: nothing but its logs, whoever removes it."""

import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep.deploying.linux import cgroups
from tpcsweep.deploying.linux.cgroups import Cgroup, hierarchy
from tpcsweep.deploying.linux.namespaces import namespace_command
from tpcsweep.deploying.linux.sockets import tcp_sockets
from tpcsweep.deploying.xrootd import server_config as xrootd
from tpcsweep.testbeds.interface import TeardownError
from tpcsweep.testbeds.netns import ownership
from tpcsweep.testbeds.netns.namespace_servers import DeploymentError, NamespaceServers
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.netns.site import NetnsSite
from tpcsweep.testbeds.netns.testbed import reap

from tests.support.sites import MIB, files, site_of, whole
from tests.support.workflow import background, finished, wait_until

Patch = pytest.MonkeyPatch
NOBODY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}


def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: Patch) -> None:
    made = xrootd.configuration
    monkeypatch.setattr(xrootd, "configuration", lambda *a, **k: made(*a, **k) + "xrd.port nonsense\n")
    with pytest.raises(DeploymentError, match="nonsense") as error, site_of(tmp_path, rtt=0):
        pass
    assert "nothing after" not in str(error.value)  # it was not waited for


def test_a_server_that_crashes_at_its_start_is_started_once_more(tmp_path: Path, monkeypatch: Patch) -> None:
    get = NamespaceServers._get
    crashes = iter(["dst1"])

    def crashing(self: NamespaceServers, side: str, context: ssl.SSLContext, place: str) -> tuple[int, str]:
        if crashed := next(crashes, None):
            [pid] = self.processes.tree.group(self.processes.name(crashed)).pids()
            os.kill(pid, signal.SIGSEGV)
            wait_until(lambda: self.processes.fault() is not None, "it is dead")
            return 0, ""
        return get(self, side, context, place)

    monkeypatch.setattr(NamespaceServers, "_get", crashing)
    with site_of(tmp_path, rtt=0) as site:
        whole(site, files(1), streams=1, file_size=MIB)
    assert "dst1: xrootd was killed by SIGSEGV" in (tmp_path / "commands.log").read_text()


def test_logs_are_kept_without_tokens_and_the_root_protocol_gives_access_to_nothing(tmp_path: Path) -> None:
    with site_of(tmp_path, origins=2, rtt=0) as site:
        whole(site, files(1), streams=2, file_size=MIB)
        server = site.sides["src"].origins[0].address
        url = f"root://{server}:{xrootd.PORT}/{xrootd.EXPORT}/{xrootd.READY_FILE}"
        # Of a deployment that no tool uses it in.
        answer = finished(namespace_command(f"{site.prefix}-client", ["xrdcp", "--silent", url, "-"]))
    assert answer.returncode == 54
    assert "permission denied" in answer.stdout
    logs = {path.name: path.read_text(errors="replace") for path in tmp_path.iterdir()}
    servers = {"xrootd.src1.log", "cmsd.dst2.log", "xrootd.dstm.log"}
    assert {"stderr.client.log", *servers} <= logs.keys()
    assert "tc " in logs["commands.log"]
    assert not any("MDAx" in log for log in logs.values())


def test_a_deployment_that_is_up_is_not_reaped(pair: NetnsSite) -> None:
    with pytest.raises(ownership.MachineBusyError, match="deployment of sweep test, pid"):
        reap(Netns(kind="netns"))
    whole(pair, files(1), streams=1, file_size=MIB)


def test_sockets_of_servers_are_seen_without_the_right_to_trace_them() -> None:
    """Containers rarely have CAP_SYS_PTRACE."""
    sockets = "from tpcsweep.deploying.linux.sockets import tcp_sockets"
    look = f"import sys; {sockets}; print(tcp_sockets('/proc', [sys.argv[1]]))"
    with (
        socket.create_server(("127.0.0.1", 0)) as held,
        # Any user may run this program, and it keeps the socket that it is given.
        background(["/bin/sleep", "600"], pass_fds=[held.fileno()], **NOBODY) as server,
    ):
        allowed = ["setpriv", "--bounding-set=-sys_ptrace", sys.executable, "-c", look, str(server.pid)]
        assert re.fullmatch(r"\{\d+\}\n", finished(allowed).stdout)


def test_a_process_that_is_about_to_end_holds_nothing() -> None:
    """Its memory goes first: with much of it the kernel takes a while, in which only root may look at its files."""
    with background(["/usr/bin/tail", "/dev/zero"], **NOBODY) as server:
        wait_until(lambda: psutil.Process(server.pid).memory_info().rss > 512 * MIB, "it has much memory")
        server.kill()
        while server.poll() is None:
            assert tcp_sockets("/proc", [server.pid]) == set()


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
    assert stat.S_IMODE((ownership.STATE / "lock").stat().st_mode) == 0o600
    began = (ownership.STATE / pair.prefix.removeprefix("tpc-")).stat().st_ctime
    unnamed = Path("/tmp").glob("*.anon.env")  # servers of other tests, which run meanwhile, have names
    assert [path for path in unnamed if path.stat().st_mtime > began] == []


def _left_behind(logs: str) -> Path:
    """What is left of a deployment that had a server, and whose owner wanted logs there."""
    folder = ownership.create_deployment(ownership.Owner("one", "rtt=5", 1, logs))
    log = folder / "nodes" / "src1" / "xrootd.src1.log"
    log.parent.mkdir(parents=True)
    log.write_text("said\n")
    return folder


def test_logs_of_leftovers_go_to_their_owner(tmp_path: Path, monkeypatch: Patch) -> None:
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
    folder = ownership.create_deployment(ownership.Owner("one", "rtt=5", 1, str(tmp_path)))
    group = Cgroup(hierarchy(), f"{ownership.prefix(folder.name)}-src1").create()
    with subprocess.Popen([*group.entry(), "sleep", "60"]) as process:
        wait_until(group.pids, "it is in its group")
        with monkeypatch.context() as patched:
            patched.setattr(ownership, "KILL_SECONDS", 0.5)
            patched.setattr("os.kill", lambda *_: None)
            with pytest.raises(TeardownError, match="processes survive SIGKILL"):
                ownership.teardown(folder)
        assert process.poll() is None
        assert reap(Netns(kind="netns")) == [f"{folder.name}: rtt=5 of sweep one"]
        assert process.wait() == -signal.SIGKILL
    assert not ownership.processes(ownership.prefix(folder.name))
