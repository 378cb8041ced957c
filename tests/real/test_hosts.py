# SPDX-License-Identifier: Apache-2.0
"""Hosts of a testbed on real servers: by ssh, in a namespace with foreign traffic, on this machine, and unreachable."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import yaml
from tpcsweep.common import processes
from tpcsweep.testbeds.netns.settings import Netns
from tpcsweep.testbeds.netns.testbed import reap

from tests.support.workflow import (
    Sweep,
    background,
    finished,
    free_port,
    gone,
    jobs,
    started,
    wait_until,
)

CELL = {"tool": "native", "bandwidth": "0.2 Gbit/s", "file_size": "1 MiB", "xrootd": "system"}
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
LOADED, PEER = "tpc-load", "tpc-load-peer"
OTHERS = 2.0  # Gbit/s of foreign traffic, on interfaces whose kernel states 10 Gbit/s


def run(*command: str) -> str:
    return processes.run(command, check=True).stdout


class Ssh(NamedTuple):
    command: str  # leads through a private ssh server of this machine
    server: psutil.Process

    def sessions(self) -> list[int]:
        """The processes of connections that run a shell or its program."""
        found = []
        for each in self.server.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
                if not each.name().startswith("sshd"):
                    found.append(each.pid)
        return found


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[Ssh]:
    if not SSHD:
        pytest.skip("needs sshd: apt-get install openssh-server")
    for name in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{tmp_path}/{name}")
    Path("/run/sshd").mkdir(exist_ok=True)  # it changes its root to there
    port = free_port()
    (tmp_path / "sshd.conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/user.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    )
    options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    way = f"ssh -F none -i {tmp_path}/user -p {port} {options} 127.0.0.1"
    with (
        (tmp_path / "sshd.log").open("wb") as log,
        background([SSHD, "-D", "-e", "-f", f"{tmp_path}/sshd.conf"], stderr=log) as server,
    ):
        wait_until(lambda: processes.run([*way.split(), "true"]).returncode == 0, "the ssh server answers")
        yield Ssh(way, psutil.Process(server.pid))


@pytest.fixture
def loaded() -> Iterator[str]:
    """The command that leads to a namespace whose interface receives traffic that is not a cell's."""
    inside, outside = ["ip", "netns", "exec", LOADED], ["ip", "netns", "exec", PEER]
    with ExitStack() as undo:
        for name in (LOADED, PEER):
            run("ip", "netns", "add", name)
            undo.callback(run, "ip", "netns", "delete", name)
        run(
            "ip",
            "link",
            "add",
            "load0",
            "netns",
            LOADED,
            "type",
            "veth",
            "peer",
            "name",
            "load0",
            "netns",
            PEER,
        )
        for name, address in ((LOADED, "192.0.2.1/30"), (PEER, "192.0.2.2/30")):
            run("ip", "-n", name, "address", "add", address, "dev", "load0")
            run("ip", "-n", name, "link", "set", "load0", "up")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        undo.enter_context(background([*inside, "iperf3", "--server", "--bind", "192.0.2.1"], **quiet))
        wait_until(lambda: ":5201" in run(*inside, "ss", "-lnt"), "iperf3 listens")
        rate = ["--bitrate", f"{OTHERS}G", "--time", "600"]
        undo.enter_context(background([*outside, "iperf3", "--client", "192.0.2.1", *rate], **quiet))
        yield " ".join(inside)


def sweep_on(folder: Path, hosts: dict[str, Any], **measurement: Any) -> tuple[Sweep, list[str]]:
    testbed = folder / "hosts.yaml"
    testbed.write_text(yaml.safe_dump({"kind": "netns", "hosts": hosts}))
    sweep = Sweep(folder).define(
        parameters=CELL | {"streams": [1, 2]},
        measurement={"until": "seconds", **measurement},
        retry_share=0,
        seed=0,
    )
    return sweep, [*sweep.command("cells"), f"testbed={testbed}"]


def test_hosts_are_recorded_with_every_cell(tmp_path: Path, ssh: Ssh, loaded: str) -> None:
    unreachable = ssh.command.replace("127.0.0.1", "127.0.0.2")
    ways = {"here": "local", "dtn": ssh.command, "loaded": loaded, "gone": unreachable}
    sweep, command = sweep_on(tmp_path, ways, seconds="8 s")
    done = finished(command)
    assert done.returncode == 0, done.stdout
    assert "host gone: not recorded: exit code 255; ssh: connect to host 127.0.0.2" in done.stdout
    cells = [json.loads(file.read_bytes()) for file in sweep.cells()]
    assert len(cells) == 2
    for cell in cells:
        recorded = cell["provenance"]["hosts"]
        assert recorded["gone"] == {"not_recorded": "exit code 255"}
        assert recorded["dtn"]["sysctls"] == recorded["here"]["sysctls"]
        assert recorded["dtn"]["kernel"] == os.uname().release
        assert [*recorded["loaded"]["interfaces"]] == ["load0"]
        assert recorded["loaded"]["interfaces"]["load0"]["speed"] == 10_000
        assert "127.0.0" not in json.dumps(recorded)
        assert recorded["local"]["sysctls"] == recorded["here"]["sysctls"]
        assert "kernel" not in recorded["local"], "the record has it already"
        figures = cell["summary"]
        assert 0.5 * OTHERS < figures["host_received"] < 1.2 * OTHERS  # iperf3 may lack CPU
        most = figures["host_received"] - figures["throughput"]
        assert 0.8 * most < figures["host_others"] < most
        assert 0 < figures["host_cpu"] <= 1
        assert 0 <= figures["host_iowait"] < 1
        assert "production_load" in cell["flags"]


def test_nothing_runs_on_hosts_after_kill_9(tmp_path: Path, ssh: Ssh) -> None:
    _, command = sweep_on(tmp_path, {"dtn": ssh.command}, seconds="60 s")
    killed = started(command, tmp_path / "output.log")
    wait_until(ssh.sessions, "the host is watched")
    begun = ssh.sessions()
    [job] = jobs(killed)
    job.kill()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    wait_until(lambda: all(map(gone, begun)), "nothing runs on the host")
    reap(Netns(kind="netns"))
