# SPDX-License-Identifier: Apache-2.0
"""A sweep on a real cluster: its cells, one cell again, and what is left when it goes wrong.

Under the ServiceAccount of config/kubernetes/rbac.yaml alone, where that matters.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import local, sweeps
from tests.cluster.local.build import RELEASE
from tests.cluster.sweeps import ACCOUNT, LASTING, LONGEST, ONE, ClusterSweep, Space, local_testbed
from tests.support.fields import differing
from tests.support.testbeds import sized
from tests.support.workflow import jobs, succeeded

THREE = {**ONE, "streams": [1, 2, 3]}
NEAR = {"cores": 0.5, "origins": 1, "rtt": "0 ms", "xrootd": "system"}
FAR = {"cores": 1, "origins": 2, "rtt": "20 ms", "xrootd": RELEASE}


@pytest.fixture(scope="module")
def account(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    """What sweeps find the cluster by has the shipped rights and no more."""
    with sweeps.account(kubeconfig, "tpcsweep-account", tmp_path_factory.mktemp("account")) as made:
        yield made


@pytest.fixture(scope="module")
def measured(account: Space, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """A sweep whose cells were measured under the account: two deployments, which differ on every axis."""
    axes = {name: [NEAR[name], FAR[name]] for name in NEAR}
    sweep = account.sweep(
        tmp_path_factory.mktemp("measured"),
        local_testbed(account.name, releases=[RELEASE]),
        parameters={**ONE, **axes, "streams": [1, 2], "tool": ["curl"]},
        exclude=[{one: NEAR[one], other: FAR[other]} for one, other in itertools.permutations(NEAR, 2)],
        include=[{**NEAR, "streams": 4, "tool": tool} for tool in ("native", "gfal2")],
    )
    done = sweep.run("cells", timeout=1800)
    assert done.returncode == 0, done.stdout
    return sweep


def test_a_sweep_is_measured_from_nothing(measured: ClusterSweep, account: Space) -> None:
    cells = measured.good_records()
    tools = sorted(cell["spec"]["parameters"]["tool"] for cell in cells)
    assert tools == [*["curl"] * 4, "gfal2", "native"]
    for cell in cells:
        assert 0 < cell["summary"]["throughput"] < 1.2 * local.RATE
        assert abs(cell["summary"]["rtt_idle"] - cell["spec"]["parameters"]["rtt"]) < 2
        assert cell["summary"]["client_cpu"] > 0
        assert "transfers_failed" not in cell["flags"]
        pods = cell["provenance"]["kubernetes"]["pods"]
        origins = cell["spec"]["parameters"]["origins"]
        assert len(pods) == 1 + 2 * (origins + (origins > 1))
        assert all(pod["image"].startswith("sha256:") or "@sha256:" in pod["image"] for pod in pods.values())
        found, release = cell["provenance"]["xrootd"], cell["spec"]["parameters"]["xrootd"]
        assert found["release"] == release
        assert (found["version"] == RELEASE) == (release == RELEASE)
        assert found["version"] == cell["provenance"]["software"]["xrootd"]
    account.check_empty()


def test_cells_have_the_fields_that_they_have_on_this_machine(measured: ClusterSweep) -> None:
    for cell in measured.records():
        assert differing(cell, "kubernetes", "xrootd") == {}
        # Whose the nodes' other processes are cannot be known there.
        assert cell["summary"]["machine_others"] is None
        assert cell["summary"]["machine_work"] > 0


def test_a_killed_snakemake_leaves_nothing_behind(account: Space, tmp_path: Path) -> None:
    """Ctrl-C does not either: the sweep of test_policy.py ends by it."""
    sweep = account.sweep(tmp_path, local_testbed(account.name), parameters=THREE)
    run = sweep.measuring()
    run.kill()
    run.wait(300)
    account.check_empty(300)


# What the account of config/kubernetes/rbac.yaml may do, and has to do


@pytest.fixture(scope="module")
def bereft(account: Space, here: local.Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """One whose node has died and come back, under the account."""
    folder = tmp_path_factory.mktemp("bereft")
    sweep = account.sweep(folder, local_testbed(account.name), measurement=LASTING, parameters=THREE)
    run = sweep.measuring()
    here.stop_kubelet("n1", pods=True)
    try:
        sweep.wait_during(run, lambda: "removed by force" in sweep.output(), "a removal by force")
    finally:
        here.start_kubelet("n1")
    assert run.wait(LONGEST) == 0, sweep.output()
    return sweep


def test_a_node_that_is_gone_for_a_while_costs_no_cell(bereft: ClusterSweep, account: Space) -> None:
    assert re.search(r"replacing .*: pod tpc-\S+: NodeNotReady: .*n1", bereft.output()), bereft.output()
    assert "removed by force: node n1" in bereft.output()
    assert [cell["status"] for cell in bereft.records()] == ["ok"] * 3
    account.check_empty()


def test_a_cell_that_is_removed_is_measured_again_and_no_other(bereft: ClusterSweep) -> None:
    before = {path: path.read_bytes() for path in bereft.cells()}
    removed = min(before)
    removed.unlink()
    bereft.measure()
    assert bereft.cells() == sorted(before)
    assert [path for path, content in before.items() if path.read_bytes() != content] == [removed]


@pytest.fixture(scope="module")
def crowded(account: Space) -> None:
    """A trial under the account has told of a pod that no node has room for."""
    too_large = {"qos": "guaranteed", "client": sized("client", limits={"cpu": 64}), "start_time": "5 s"}
    refusal = account.refusal(local_testbed(account.name, **too_large))
    assert re.search(r"client pod does not start: Unschedulable: .*Insufficient cpu", refusal), refusal


@pytest.fixture(scope="module")
def reaped(account: Space, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a killed job has left has been removed by `tpcsweep reap` under the account."""
    folder = tmp_path_factory.mktemp("reaped")
    sweep = account.sweep(folder, local_testbed(account.name), parameters=THREE)
    run = sweep.measuring()
    (job,) = jobs(run)
    job.kill()
    run.wait(LONGEST)
    kinds = {"pods", "config maps", "jobs", "network policies"}
    assert set(account.left()) == kinds
    succeeded(sweep.asking("reap"))
    account.check_empty()


@pytest.mark.usefixtures("measured", "bereft", "crowded", "reaped")
def test_the_role_has_no_right_that_is_not_used(here: local.Cluster, account: Space) -> None:
    granted = sweeps.shipped_rights()
    events = here.requests(account.name)
    user = f"system:serviceaccount:{account.name}:{ACCOUNT}"
    assert {event["user"]["username"] for event in events} == {user}
    assert [right(event) for event in events if event["responseStatus"]["code"] == 403] == []
    used = {right(event) for event in events if "objectRef" in event}
    used = {
        each for each in used if each[0] != "authorization.k8s.io"
    }  # everybody may ask for his own rights
    # The first is asked for from Kubernetes 1.35 on, the second for pods and Jobs that do not start.
    assert granted - used == {("", "pods/exec", "create"), ("", "events", "list")}
    assert used <= granted


def right(event: dict[str, Any]) -> tuple[str, str, str]:
    """The right that a request takes, as RBAC names it."""
    what = event["objectRef"]
    resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
    return what.get("apiGroup", ""), resource, event["verb"]
