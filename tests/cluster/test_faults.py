"""What a sweep says, and leaves, when its cluster goes wrong under it: faults that are made, not played."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from tests.cluster import local
from tests.cluster.sweeps import ClusterSweep, Space, local_testbed, space
from tests.support.workflow import ROOT, wait_until

CELLS = {"rtt": "0 ms", "file_size": "8 MiB", "streams": [1, 2], "tool": "curl"}
MORE = {**CELLS, "streams": [1, 2, 3]}
KILL = """
import os, pathlib, signal
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    if (folder / "comm").read_text() == "xrootd\\n":
        os.kill(int(folder.name), signal.SIGSEGV)
"""
EIGHT = {"min_time": "8 s", "max_time": "8 s"}
"""Time enough in a cell to break something."""
ORPHANED = 200.0
"""Seconds in which a cluster has collected what nobody comes for: the hub gives up after two minutes."""


@pytest.fixture(scope="module")
def namespace(cluster: local.Cluster) -> Iterator[Space]:
    """On the local cluster only: nobody's else may be broken."""
    with space(cluster.kubeconfig, "tpcsweep-faults") as made:
        yield made


def test_an_api_server_that_restarts_in_a_cell_costs_no_sample(
    cluster: local.Cluster, namespace: Space, tmp_path: Path
) -> None:
    sweep, run = measuring(namespace, tmp_path)
    cluster.restart_api_server(down_for=3)
    assert run.wait(120) == 0, sweep.output()
    for path in sweep.cells():
        cell = json.loads(path.read_bytes())
        assert cell["status"] == "ok", cell["message"]
        times = cell["samples"]["time"]
        assert max(b - a for a, b in itertools.pairwise(times)) < 0.5
        assert times[-1] > 7
    assert namespace.left() == {}


def test_a_client_pod_that_is_deleted(namespace: Space, tmp_path: Path) -> None:
    sweep, run = measuring(namespace, tmp_path, MORE)
    [pod] = namespace.pods(role="client")
    namespace.core.delete_namespaced_pod(pod, namespace.name, grace_period_seconds=0)
    assert run.wait(180) == 0, sweep.output()
    only_the_second_failed(sweep, rf"pod {pod}: Deleted")
    assert namespace.left() == {}


def test_an_origin_pod_that_is_deleted(namespace: Space, tmp_path: Path) -> None:
    sweep, run = measuring(namespace, tmp_path, MORE)
    [pod] = namespace.pods(role="origin", side="dst")
    namespace.core.delete_namespaced_pod(pod, namespace.name, grace_period_seconds=0)
    assert run.wait(180) == 0, sweep.output()
    only_the_second_failed(sweep, rf"pod {pod}: Deleted")
    assert namespace.left() == {}


def test_a_server_that_dies(cluster: local.Cluster, namespace: Space, tmp_path: Path) -> None:
    sweep, run = measuring(namespace, tmp_path, MORE)
    [pod] = namespace.pods(side="dst")
    inside = ["exec", f"--namespace={namespace.name}", pod, "--container=servers", "--"]
    cluster.kubectl(*inside, "/usr/bin/python3", "-c", KILL)
    assert run.wait(180) == 0, sweep.output()
    only_the_second_failed(sweep, rf"pod {pod}: .*container servers ended .*xrootd ended with exit code -11")
    assert namespace.left() == {}


def test_a_node_that_is_gone(cluster: local.Cluster, namespace: Space, tmp_path: Path) -> None:
    """The deployment that would take the place of the broken one finds no node: that fails the job."""
    sweep, run = measuring(namespace, tmp_path, MORE, start_time="20 s")
    [pod] = namespace.pods(side="src")
    cluster.stop_kubelet("n1", pods=True)
    try:
        assert run.wait(300) != 0
        assert re.search(rf"pod {pod}: NodeNotReady: .*n1", sweep.output()), sweep.output()
        assert namespace.left() == {}
    finally:
        cluster.start_kubelet("n1")
        cluster.kubectl("wait", "node/n1", "--for=condition=Ready", "--timeout=60s")


def test_pods_that_no_node_has_room_for(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(namespace.name, qos="guaranteed", client_cores=64, start_time="5 s")
    sweep = namespace.sweep(tmp_path, settings, parameters=CELLS)
    done = sweep.run("cells")
    assert done.returncode != 0
    assert re.search(r"not running after 5 s: pod \S+: Unschedulable: .*Insufficient cpu", done.stdout)
    assert re.search(r"it requests cpu 64.*n2", done.stdout), done.stdout
    assert namespace.left() == {}


def test_a_quota_that_is_exceeded(namespace: Space, tmp_path: Path) -> None:
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), parameters=CELLS)
    limit = client.V1ResourceQuota(
        metadata=client.V1ObjectMeta(name="few"), spec=client.V1ResourceQuotaSpec(hard={"pods": "2"})
    )
    namespace.core.create_namespaced_resource_quota(namespace.name, limit)
    wait_until(lambda: _counted(namespace), "the quota counts")
    try:
        done = sweep.run("cells")
    finally:
        namespace.core.delete_namespaced_resource_quota("few", namespace.name)
    assert done.returncode != 0
    assert re.search(r"quota.* few", done.stdout), done.stdout
    assert "pods=2" in done.stdout
    assert namespace.left() == {}


def test_credentials_that_end_in_a_cell(
    cluster: local.Cluster, namespace: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left who may tear down, as after kill -9: the cluster does it."""
    inside = f"--namespace={namespace.name}"
    cluster.kubectl("apply", inside, "--filename", str(ROOT / "config/kubernetes/rbac.yaml"))
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": cluster.kubectl("create", "token", inside, "tpcsweep").strip()}
    theirs = tmp_path / "kubeconfig"
    theirs.write_text(yaml.safe_dump(content))
    with monkeypatch.context() as patched:
        patched.setenv("TPCSWEEP_KUBECONFIG", str(theirs))
        sweep, run = measuring(namespace, tmp_path)
    cluster.kubectl("delete", inside, "serviceaccount", "tpcsweep")
    assert run.wait(120) != 0
    assert "does not accept the credentials (401)" in sweep.output(), sweep.output()
    assert namespace.left()
    wait_until(lambda: set(namespace.left()) <= {"leases"}, "the cluster collects what is left", ORPHANED)
    done = sweep.run("reap")
    assert done.returncode == 0, done.stdout
    assert namespace.left() == {}


def measuring(
    namespace: Space, folder: Path, parameters: dict[str, Any] = CELLS, **settings: Any
) -> tuple[ClusterSweep, subprocess.Popen[bytes]]:
    """A sweep of several cells, in the midst of the second."""
    testbed = local_testbed(namespace.name, **settings)
    sweep = namespace.sweep(folder, testbed, measurement=EIGHT, parameters=parameters)
    run = sweep.start("cells")

    def between() -> bool:
        return "cell 1/" in sweep.output() or run.poll() is not None

    wait_until(between, f"a cell ends: {sweep.output()}", 120)
    assert run.poll() is None, sweep.output()
    time.sleep(2)
    return sweep, run


def only_the_second_failed(sweep: ClusterSweep, message: str) -> None:
    """One cell of three says what broke; the third was measured in another deployment."""
    cells = [json.loads(path.read_bytes()) for path in sweep.cells()]
    first, second, third = sorted(cells, key=lambda cell: str(cell["provenance"]["started"]))
    assert re.search(message, second["message"]), second["message"]
    assert [cell["status"] for cell in (first, second, third)] == ["ok", "failed", "ok"]
    assert second["flags"] == ["deployment_broken"]
    assert first["provenance"]["deployment"] == second["provenance"]["deployment"]
    assert second["provenance"]["deployment"] != third["provenance"]["deployment"]


def _counted(namespace: Space) -> bool:
    quota = namespace.core.read_namespaced_resource_quota("few", namespace.name)
    return bool(quota.status and quota.status.used)
