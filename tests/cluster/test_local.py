# SPDX-License-Identifier: Apache-2.0
"""Is the cluster on this machine one that can be relied on, and is nothing of it left afterwards?"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cluster import local
from tests.cluster.local import build, groups, policies
from tests.cluster.sweeps import LONGEST, RATE
from tests.support.workflow import wait_until


def pod(name: str, node: str, *command: str, **container: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    described = {"name": "c", "image": build.IMAGE, "imagePullPolicy": "Never", "command": list(command)}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "local"}},
        "spec": spec | {"containers": [described | {"resources": resources} | container]},
    }


@pytest.fixture(scope="module")
def pods(cluster: local.Cluster) -> Iterator[dict[str, str]]:
    """One pod a node: node → the pod's address. Each serves iperf3."""
    names = [node.name for node in cluster.nodes]
    made = [pod(f"on-{name}", name, "sh", "-c", f"echo here is {name}; exec iperf3 -s") for name in names]
    cluster.kubectl(
        "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    )
    cluster.kubectl(
        "wait", "pod", "-l", "test=local", "--for=condition=Ready", "--timeout=300s", timeout=LONGEST
    )
    where = 'jsonpath={range .items[*]}{.spec.nodeName} {.status.podIP}{"\\n"}{end}'
    yield dict(
        line.split() for line in cluster.kubectl("get", "pods", "-l", "test=local", "-o", where).splitlines()
    )
    cluster.kubectl("delete", "pod", "-l", "test=local", "--wait=false")


def test_a_pod_runs_on_each_node_and_is_reached_through_the_relay(
    cluster: local.Cluster, pods: dict[str, str]
) -> None:
    assert set(pods) == {"n1", "n2", "n3"}
    for node in pods:
        assert cluster.kubectl("exec", f"on-{node}", "--", "echo", "hello") == "hello\n"
        assert f"here is {node}" in cluster.kubectl("logs", f"on-{node}")


@pytest.mark.parametrize(("one", "other", "asked"), [("n1", "n2", 0), ("n1", "n3", 20), ("n3", "n2", 20)])
def test_rtt_between_nodes_is_as_asked(
    cluster: local.Cluster, pods: dict[str, str], one: str, other: str, asked: float
) -> None:
    # At the full MTU and not to be fragmented: pods and links agree.
    ping = ["ping", "-c", "9", "-i", "0.2", "-M", "do", "-s", "8972", pods[other]]
    out = cluster.kubectl("exec", f"on-{one}", "--", *ping)
    # What the machine has else to do makes it longer, and never shorter.
    assert min(map(float, re.findall(r"time=([\d.]+) ms", out))) == pytest.approx(asked, abs=1.0)


@pytest.mark.parametrize("other", ["n2", "n3"])
def test_rate_between_nodes_is_as_asked(cluster: local.Cluster, pods: dict[str, str], other: str) -> None:
    command = ["iperf3", "-J", "-P", "2", "-t", "4", "-O", "2", "-c", pods[other]]
    found = json.loads(cluster.kubectl("exec", "on-n1", "--", *command))
    rate = found["end"]["sum_received"]["bits_per_second"] / 1e9
    assert 0.5 * RATE < rate < 1.03 * RATE


def test_a_cpu_quota_holds(cluster: local.Cluster) -> None:
    """On a busy machine it gets less than its quota, but never more, and is held back when it gets that."""

    def logs(name: str) -> str:
        try:
            return cluster.kubectl("logs", name)
        except local.ClusterError:  # its container has not started
            return ""

    counted = "cat /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat"
    held_back = f"{counted} 2>/dev/null | grep -qE 'nr_throttled ([3-9]|[0-9]{{2}})'"
    # Once at least: to start takes CPU too, and may be held back for that.
    busy = "timeout 3 sh -c 'while :; do :; done'"
    loop = f"date +%s.%N; {busy}; until {held_back}; do {busy}; done; date +%s.%N; times; echo"
    command = ["sh", "-c", f"({loop}; {counted}) 2>&1; exec sleep 600"]
    made = pod("quota", "n1", *command, resources={"limits": {"cpu": "100m"}})
    cluster.kubectl("create", "-f", "-", input=json.dumps(made))
    try:
        wait_until(lambda: "nr_throttled" in logs("quota"), "the loop has ended", LONGEST)
        said = logs("quota")
        begun, ended = map(float, said.split()[:2])
        times = re.findall(r"(\d+)m([\d.]+)s", said)[2:]  # of children: user and system
        used = sum(int(minutes) * 60 + float(seconds) for minutes, seconds in times)
        assert used <= 0.1 * (ended - begun) + 0.1
    finally:
        cluster.kubectl("delete", "pod/quota", "--wait=false")


def policy(**spec: Any) -> dict[str, Any]:
    """One of the pods above: those on n2."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "few", "namespace": "default"},
        "spec": {"podSelector": {"matchLabels": {"node": "n2"}}, **spec},
    }


def test_policies_become_rules_or_are_refused() -> None:
    def made(name: str, address: str | None, **spec: Any) -> dict[str, Any]:
        labels = {"namespace": "default", "labels": {"node": name}}
        return {"metadata": labels, "spec": spec, "status": {"phase": "Running", "podIP": address}}

    pods = [made("n2", "10.0.0.2"), made("n3", "10.0.0.3"), made("n3", None)]
    pods.append(made("n3", "10.0.0.4", hostNetwork=True))
    from_n3: dict[str, Any] = {"from": [{"podSelector": {"matchLabels": {"node": "n3"}}}]}
    ports = [{"port": 8080, "protocol": "TCP"}, {"port": 1213, "protocol": "TCP"}]
    said = policies.rules([policy(policyTypes=["Ingress"], ingress=[from_n3 | {"ports": ports}])], pods)
    begin = "-A POLICIES-Ingress -d 10.0.0.2"
    assert [line for line in said.splitlines() if "10.0.0" in line] == [
        f"{begin} -s 10.0.0.3 -p tcp -m multiport --dports 8080,1213 -j RETURN",
        f"{begin} -j DROP",
    ]
    assert "10.0.0" not in policies.rules([], pods)
    shut = policies.rules([policy(policyTypes=["Ingress"])], pods)
    assert [line for line in shut.splitlines() if "10.0.0" in line] == [f"{begin} -j DROP"]
    for unknown in ({"from": [{"ipBlock": {}}]}, {"ports": [{"port": "name", "protocol": "TCP"}]}):
        with pytest.raises(policies.UnknownPolicyError, match="few of default"):
            policies.rules([policy(policyTypes=["Ingress"], ingress=[unknown])], pods)


# What it leaves behind


def machine() -> dict[str, set[str]]:
    """What a cluster must not change on this machine; deployments on it may come and go meanwhile."""
    sysctls = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "net/ipv4/ip_forward")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    places = ("var/lib/cni", "var/lib/kubelet", "var/lib/containerd", "run/containerd", "run/cluster")
    namespaces = ("run/netns/hub", "run/netns/n1")
    return {
        "mounts": {
            mount for mount in mounts if not mount.split()[1].startswith(("/run/netns", "/run/tpcsweep"))
        },
        "interfaces": {each.name for each in Path("/sys/class/net").iterdir() if "tpc" not in each.name},
        "sysctls": {f"{name} {Path('/proc/sys', name).read_text()}" for name in sysctls},
        "places": {place for place in (*places, *namespaces) if Path("/", place).exists()},
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


@contextlib.contextmanager
def starter(folder: Path, *what: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A cluster by the command line, and its group; whatever then happens in the `with`, nothing may stay."""
    before = machine()
    command = [sys.executable, "-m", "tests.cluster.local", *what, "--folder", str(folder)]
    # What is started in the background ignores Ctrl-C, and so does what it starts.
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *command], cwd=build.ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{folder / 'kubeconfig'}\n"
        group = local.Cluster(folder).settings.group
        assert len(left(folder, group)) > 10
        yield process, group
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not left(folder, group), f"all is gone, but not {left(folder, group)}", LONGEST)
    assert machine() == before


ONE_NODE = ["up", "--nodes", "1"]


@pytest.mark.parametrize(
    ("number", "what", "nodes"),
    [(signal.SIGINT, ["control-plane"], ""), (signal.SIGKILL, ONE_NODE, "node/n1\n")],
)
def test_nothing_is_left_when_the_starter_ends(
    tmp_path: Path, number: signal.Signals, what: list[str], nodes: str
) -> None:
    with starter(tmp_path, *what) as (process, _):
        assert local.Cluster(tmp_path).kubectl("get", "nodes", "-o", "name") == nodes
        process.send_signal(number)
        process.wait(LONGEST)


@pytest.mark.parametrize("victim", ["keeper", "world"])
def test_nothing_is_left_when_a_part_is_killed(tmp_path: Path, victim: str) -> None:
    with starter(tmp_path, *ONE_NODE) as (process, group):
        words = {f"tests.cluster.local.{victim}", str(tmp_path)}
        for each in psutil.process_iter(["cmdline"]):
            if words <= set(each.info["cmdline"] or []):
                os.kill(each.pid, signal.SIGKILL)
        assert process.wait(LONGEST) == 1
        local.down(tmp_path)
        assert not left(tmp_path, group)


def test_a_cluster_that_does_not_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine()
    group = f"{groups.PREFIX}broken"
    monkeypatch.setattr(local, "_group", lambda: group)
    folder = tmp_path / "folder"
    with (
        pytest.raises(local.ClusterError, match="bandwidth is 1000 Gbit/s"),
        local.cluster(folder, nodes=1, bandwidth=[1000]),
    ):
        pass
    assert not left(folder, group)
    assert machine() == before


# What it is built of


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


def test_what_a_killed_build_has_left_is_gone_with_the_next() -> None:
    code = "from tests.cluster.local import build, os\nwith build.scratch('probe') as f: print(f, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=build.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with build.scratch("probe") as other:
            assert left.is_dir()  # its owner lives
        process.kill()
        process.wait()
    assert left.is_dir()
    assert not other.exists()
    with build.scratch("probe"):
        assert not left.exists()
