# SPDX-License-Identifier: Apache-2.0
"""Clusters of this machine: however one ends nothing is left of it, and one that does not start says why."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.cluster import local
from tests.cluster.local import build, groups
from tests.cluster.sweeps import LONGEST
from tests.support.workflow import wait_until


def machine(folder: Path) -> dict[str, set[str]]:
    """What a cluster in `folder` must not change on this machine; other tests mount and deploy meanwhile."""
    sysctls = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "net/ipv4/ip_forward")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    theirs = (tempfile.gettempdir(), "/run/netns", "/run/tpcsweep")
    places = ["var/lib/cni", "var/lib/kubelet", "var/lib/containerd", "run/containerd", "run/cluster"]
    places += ["run/netns/hub", "run/netns/n1"]
    return {
        "mounts": {
            mount for mount in mounts if str(folder) in mount or not mount.split()[1].startswith(theirs)
        },
        "interfaces": {each.name for each in Path("/sys/class/net").iterdir() if "tpc" not in each.name},
        "sysctls": {f"{name} {Path('/proc/sys', name).read_text()}" for name in sysctls},
        "places": {place for place in places if Path("/", place).exists()},
    }


def left(folder: Path, group: str) -> set[str]:
    """Processes and cgroups of one cluster, and files that are not logs."""
    found = {str(root / group) for root in groups.hierarchies() if (root / group).exists()}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            command = process.cmdline()
            if group in Path(f"/proc/{process.pid}/cgroup").read_text() or str(folder) in command:
                found.add(f"{process.pid} {command[:4]}")
    return found | {str(path) for path in folder.glob("*") if path.name != "logs"}


@pytest.mark.parametrize("victim", ["", ".keeper", ".world"], ids=["starter", "keeper", "world"])
def test_nothing_is_left_when_a_part_is_killed(tmp_path: Path, victim: str) -> None:
    before = machine(tmp_path)
    what = ["control-plane"] if victim else ["up", "--nodes", "1"]
    command = [sys.executable, "-m", "tests.cluster.local", *what, "--folder", str(tmp_path)]
    with subprocess.Popen(command, cwd=build.ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == f"{tmp_path / 'kubeconfig'}\n"
            group = local.Cluster(tmp_path).settings.group
            assert len(left(tmp_path, group)) > 10
            words = {f"tests.cluster.local{victim}", str(tmp_path)}
            for each in psutil.process_iter(["cmdline"]):
                if words <= set(each.info["cmdline"] or []):
                    os.kill(each.pid, signal.SIGKILL)
            process.wait(LONGEST)
        finally:
            process.kill()
    if victim:
        assert process.returncode == 1
    wait_until(lambda: not left(tmp_path, group), f"all is gone, but not {left(tmp_path, group)}", LONGEST)
    assert machine(tmp_path) == before


def test_a_cluster_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine(tmp_path)
    group = f"{groups.PREFIX}broken"
    monkeypatch.setattr(local, "_group", lambda: group)
    folder = tmp_path / "folder"
    with (
        pytest.raises(local.ClusterError, match=r'tc .*illegal value for "burst"'),
        local.cluster(folder, nodes=1, bandwidth=[1e12]),
    ):
        pass
    assert not left(folder, group)
    assert machine(tmp_path) == before


def test_a_failed_build_says_which_line(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module broken\n\ngo 1.24\n")
    (tmp_path / "main.go").write_text('package main\n\nfunc main() { var number int = "text" }\n')
    with pytest.raises(build.BuildError, match=r"exit code 1: (.*\n)*.*main\.go:3:\d+: cannot use \"text\""):
        build.go(["build", *build.FLAGS, "-o", "/dev/null", "."], tmp_path, build.environment())


def test_a_cluster_is_not_started_where_one_runs(cluster: local.Cluster) -> None:
    with (
        pytest.raises(local.ClusterError, match=f"runs in {cluster.folder} already: .*{cluster.kubeconfig}"),
        local.cluster(cluster.folder),
    ):
        pass
    assert cluster.kubectl("get", "node/n1", "-o", "name") == "node/n1\n"
