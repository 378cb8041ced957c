# SPDX-License-Identifier: Apache-2.0
"""A sweep on a real cluster: from nothing to the page, one cell again, and what is left when it goes wrong.

Under the ServiceAccount of config/kubernetes/rbac.yaml alone, where that matters.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from psutil import Process
from tpcsweep.running import folding

from tests.cluster import local
from tests.cluster.local.build import RELEASE
from tests.cluster.reports import check_results
from tests.cluster.sweeps import (
    ACCOUNT,
    LASTING,
    LONGEST,
    ONE,
    RATE,
    ClusterSweep,
    Space,
    local_testbed,
    on,
    space,
)
from tests.support.fields import differing
from tests.support.workflow import ROOT, finished, wait_until

THREE = {**ONE, "streams": [1, 2, 3]}
LACKING = "5.9.9"
"""A release that the testbed's file says the image has, and that it has not."""


@pytest.fixture(scope="module")
def namespace(kubeconfig: Path) -> Iterator[Space]:
    with space(kubeconfig, "tpcsweep-test") as made:
        yield made


def test_the_profile_takes_a_sweep_from_nothing_to_its_page(
    measured: ClusterSweep, account: Space, tmp_path: Path
) -> None:
    cells = loaded(measured)
    assert len(cells) == 10
    for cell in cells:
        assert cell["status"] == "ok", cell["message"]
        assert 0 < cell["summary"]["throughput"] < 1.2 * RATE
        assert abs(cell["summary"]["rtt_idle"] - cell["spec"]["parameters"]["rtt"]) < 2
        pods = cell["provenance"]["kubernetes"]["pods"]
        origins = cell["spec"]["parameters"]["origins"]
        assert len(pods) == 1 + 2 * (origins + (origins > 1))
        assert all(pod["image"].startswith("sha256:") or "@sha256:" in pod["image"] for pod in pods.values())
    check_results(measured.results, len(cells), tmp_path)
    assert account.left() == {}


def test_tools_of_one_process_transfer_from_the_client_pod(measured: ClusterSweep) -> None:
    cells = [cell for cell in loaded(measured) if cell["spec"]["parameters"]["tool"] != "curl"]
    assert sorted(cell["spec"]["parameters"]["tool"] for cell in cells) == ["gfal2", "native"]
    for cell in cells:
        assert cell["status"] == "ok", cell["message"]
        assert "transfers_failed" not in cell["flags"]
        assert cell["summary"]["client_cpu"] > 0


def test_a_removed_cell_is_measured_again_and_no_other(measured: ClusterSweep, account: Space) -> None:
    gone, *kept = measured.cells()
    before = {path: path.read_bytes() for path in kept}
    old = gone.read_bytes()
    gone.unlink()
    done = measured.run("cells")
    assert done.returncode == 0, done.stdout
    assert gone.read_bytes() != old
    assert {path: path.read_bytes() for path in kept} == before
    assert account.left() == {}


def test_cells_have_the_fields_that_they_have_on_this_machine(measured: ClusterSweep) -> None:
    for cell in loaded(measured):
        assert differing(cell, "kubernetes", "xrootd") == {}
        # Whose the nodes' other processes are cannot be known there.
        assert cell["summary"]["machine_others"] is None
        assert cell["summary"]["machine_work"] > 0


def test_deployments_run_side_by_side_on_nodes_of_their_own(namespace: Space, tmp_path: Path) -> None:
    """Of two runs: a testbed has its clients in one place, and each of these needs a node for its own."""
    near, _ = local_testbed(namespace.name)["paths"]["pairs"]
    within = {"rtt": "0 ms", "source": on("n3"), "destination": on("n3")}
    ten = {"min_time": "10 s", "max_time": "10 s"}
    sweeps = []
    for pair, client in ((near, "n2"), (within, "n3")):
        # Within a node nothing limits the rate: it is what the machine can do at the time.
        paths = {"kind": "nodes", "pairs": [pair]}
        settings = local_testbed(namespace.name, bandwidth="1000 Gbit/s", client=on(client), paths=paths)
        folder = tmp_path / client
        folder.mkdir()
        parameters = {**ONE, "streams": [1, 2]}
        sweeps.append(namespace.sweep(folder, settings, measurement=ten, parameters=parameters))
    runs = [sweep.start("cells") for sweep in sweeps]

    def both() -> bool:
        return len(namespace.pods(side="src")) == 2 or any(run.poll() is not None for run in runs)

    wait_until(both, "both are there at a time", 300)
    assert [run.poll() for run in runs] == [None, None], [sweep.output() for sweep in sweeps]
    for sweep, run in zip(sweeps, runs, strict=True):
        assert run.wait(600) == 0, sweep.output()
    first, second = (
        {node for cell in loaded(sweep) for node in nodes(cell["provenance"])} for sweep in sweeps
    )
    assert (first, second) == ({"n1", "n2"}, {"n3"})
    assert namespace.left() == {}


def test_a_node_that_two_users_call_by_two_names_is_measured_on_in_turn(
    kubeconfig: Path, namespace: Space, tmp_path: Path
) -> None:
    """From two namespaces, and one's servers are where the other's client is."""
    with space(kubeconfig, "tpcsweep-another") as another:
        long = {"min_time": "10 s", "max_time": "10 s"}
        pairs = [
            {"rtt": "0 ms", "source": on("n1"), "destination": on("n2")},
            {"rtt": "0 ms", "source": chosen("n1"), "destination": chosen("n1")},
        ]
        sweeps = []
        for user, pair, client in ((namespace, pairs[0], on("n2")), (another, pairs[1], chosen("n2"))):
            paths = {"kind": "nodes", "pairs": [pair]}
            settings = local_testbed(user.name, bandwidth="1000 Gbit/s", client=client, paths=paths)
            folder = tmp_path / user.name
            folder.mkdir()
            # The first is interrupted long before its end.
            count = 100 if user is namespace else 1
            sweeps.append(user.sweep(folder, settings, measurement=long, parameters=ONE, repetitions=count))
        runs = [sweeps[0].start("cells")]
        sweeps[0].wait_for_cell(runs[0])
        runs.append(sweeps[1].start("cells"))
        waits = "waiting for nodes that other deployments use: "
        wait_until(lambda: waits in sweeps[1].output(), "the second run waits", LONGEST)
        os.killpg(runs[0].pid, signal.SIGINT)
        assert [run.wait(LONGEST) for run in runs] == [1, 0], sweeps[1].output()
        first = [span(json.loads(path.read_bytes())) for path in sweeps[0].staged()]
        [cell] = loaded(sweeps[1])
        assert cell["status"] == "ok"
        assert max(end for _, end in first) <= span(cell)[0]
        assert (namespace.left(), another.left()) == ({}, {})


def chosen(node: str) -> dict[str, Any]:
    """The placement on one node, in other words than those of `on`."""
    name = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [name]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def span(cell: dict[str, Any]) -> tuple[float, float]:
    """When a cell was measured, in seconds since 1970."""
    began = datetime.datetime.fromisoformat(cell["provenance"]["started"]).timestamp()
    return began, began + cell["summary"]["duration"]


def test_data_go_in_the_clear_and_servers_let_everybody_in(namespace: Space, tmp_path: Path) -> None:
    asked = {
        "authorization": ["macaroons", "none"],
        "encryption": ["tls", "none"],
        "tool": ["curl", "gfal-copy"],
    }
    # gfal2 asks for macaroons by https alone.
    refused = {"authorization": "macaroons", "encryption": "none", "tool": "gfal-copy"}
    sweep = namespace.sweep(
        tmp_path, local_testbed(namespace.name), parameters={**ONE, **asked}, exclude=[refused]
    )
    done = sweep.run("cells", timeout=1800)
    assert done.returncode == 0, done.stdout
    assert [cell["message"] for cell in loaded(sweep) if cell["status"] != "ok"] == []
    assert len(sweep.cells()) == 7


def nodes(provenance: dict[str, Any]) -> set[str]:
    """Those of a deployment's servers; clients may share one."""
    pods = provenance["kubernetes"]["pods"]
    return {pod["node"] for name, pod in pods.items() if name != "client"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_snakemake_leaves_nothing_behind(
    namespace: Space, tmp_path: Path, number: signal.Signals
) -> None:
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), parameters=THREE)
    run = sweep.start("cells")
    sweep.wait_for_cell(run)
    assert run.poll() is None, sweep.output()
    if number == signal.SIGINT:
        os.killpg(run.pid, number)
    else:
        run.send_signal(number)
    run.wait(300)
    wait_until(lambda: not namespace.left(), f"nothing is left: {sweep.output()}", 300)


def test_a_missing_image_is_named(namespace: Space, tmp_path: Path) -> None:
    settings = local_testbed(namespace.name, image="localhost/nowhere:1")
    sweep = namespace.sweep(tmp_path, settings, parameters=THREE)
    done = sweep.run("cells")
    assert done.returncode != 0
    assert "ErrImageNeverPull: image localhost/nowhere:1" in done.stdout
    assert namespace.left() == {}


@pytest.fixture(scope="module")
def released(namespace: Space, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The cells of a sweep over releases that the testbed's file says the image has, one of them wrongly."""
    settings = local_testbed(namespace.name, releases=[RELEASE, LACKING])
    parameters = {**ONE, "origins": 2, "streams": 2, "xrootd": ["system", RELEASE, LACKING]}
    sweep = namespace.sweep(tmp_path_factory.mktemp("released"), settings, parameters=parameters)
    done = sweep.run("cells", timeout=1800)
    assert "2 of 3 cells measured" in done.stdout
    assert namespace.left() == {}
    [hole] = folding.holes(sweep.results)
    cells = {cell["spec"]["parameters"]["xrootd"]: cell for cell in loaded(sweep)}
    return {**cells, LACKING: {"message": hole.why}}


@pytest.mark.parametrize("release", ["system", RELEASE])
def test_each_release_of_the_image_serves_its_cells_and_says_what_it_is(
    released: dict[str, dict[str, Any]], release: str
) -> None:
    cell = released[release]
    assert cell["status"] == "ok", cell["message"]
    assert cell["summary"]["throughput"] > 0
    found = cell["provenance"]["xrootd"]
    assert found["release"] == release
    assert (found["version"] == RELEASE) == (release == RELEASE)
    assert found["version"] == cell["provenance"]["software"]["xrootd"]


def test_a_release_that_the_image_lacks_is_refused_with_what_it_has(
    released: dict[str, dict[str, Any]],
) -> None:
    why = f"xrootd {LACKING}: the image has no /opt/xrootd/{LACKING}; it has system and of others {RELEASE}"
    assert why in released[LACKING]["message"]


def test_an_rtt_that_no_path_has_is_refused_with_those_that_exist(namespace: Space, tmp_path: Path) -> None:
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), parameters={**THREE, "rtt": "50 ms"})
    done = sweep.run("cells")
    assert done.returncode != 0
    assert "one of 0 ms, 20 ms" in done.stdout


# What the account of config/kubernetes/rbac.yaml may do, and has to do


@pytest.fixture(scope="module")
def silent(account: Space, here: local.Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """One that has ended under the account because a node has fallen silent; before, somebody touched its Leases."""
    testbed = local_testbed(account.name, start_time="20 s")
    sweep = account.sweep(
        tmp_path_factory.mktemp("silent"),
        testbed,
        measurement=LASTING,  # in all longer than it takes a cluster to miss a node: 50 s
        parameters={**ONE, "streams": list(range(1, 13))},
    )
    try:
        run = measuring(sweep)
        here.kubectl("annotate", "leases", "--all", "touched=", f"--namespace={account.name}")
        here.stop_kubelet("n1")
        # Another deployment is tried first, in vain: the node is not there for it either.
        run.wait(LONGEST)
    finally:
        here.start_kubelet("n1")
        here.kubectl("wait", "node/n1", "--for=condition=Ready", "--timeout=300s", timeout=LONGEST)
    return sweep


@pytest.fixture(scope="module")
def reaped(account: Space, tmp_path_factory: pytest.TempPathFactory) -> ClusterSweep:
    """One whose job was killed, and whose remains have been removed by `tpcsweep reap` under the account."""
    folder = tmp_path_factory.mktemp("reaped")
    sweep = account.sweep(folder, local_testbed(account.name), parameters=THREE)
    run = measuring(sweep)
    kill_job(run)
    assert account.left()  # or there is nothing to reap
    done = finished(sweep.asking("reap"))
    assert done.returncode == 0, done.stdout
    return sweep


def measuring(sweep: ClusterSweep) -> subprocess.Popen[bytes]:
    """A sweep that has measured its first cell."""
    run = sweep.start("cells")
    sweep.wait_for_cell(run)
    assert run.poll() is None, sweep.output()
    return run


def test_a_fault_is_told_and_cleared_away_under_the_account(silent: ClusterSweep, account: Space) -> None:
    assert "NodeNotReady" in silent.output()
    assert "removed by force: node n1" in silent.output()
    assert account.left() == {}


@pytest.mark.usefixtures("reaped")
def test_what_a_killed_job_has_left_is_reaped_under_the_account(account: Space) -> None:
    assert account.left() == {}


def test_the_cluster_collects_what_a_killed_job_has_left_leases_included(
    account: Space, tmp_path: Path
) -> None:
    """Without another run and without `reap`."""
    sweep = account.sweep(tmp_path, local_testbed(account.name, orphan_time="30 s"), parameters=THREE)
    run = measuring(sweep)
    kill_job(run)
    assert set(account.left()) == {"pods", "secrets", "config maps", "jobs", "network policies", "leases"}
    wait_until(lambda: not account.left(), "the cluster collects everything", LONGEST)


def kill_job(run: subprocess.Popen[bytes]) -> None:
    """Kill the job of a started run by force, and wait for the end of the run."""
    (job,) = (each for each in Process(run.pid).children() if "deployment.py" in " ".join(each.cmdline()))
    job.kill()
    run.wait(LONGEST)


@pytest.mark.usefixtures("measured", "silent", "reaped")
def test_the_role_has_no_right_that_is_not_used(here: local.Cluster, account: Space) -> None:
    granted = {
        (group, resource, verb)
        for document in yaml.safe_load_all((ROOT / "config/kubernetes/rbac.yaml").read_text())
        for rule in document.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    events = here.requests(account.name)
    assert {event["user"]["username"] for event in events} == {
        f"system:serviceaccount:{account.name}:{ACCOUNT}"
    }
    used = {
        right(event) for event in events if "objectRef" in event and event["responseStatus"]["code"] != 403
    }
    later = {("", "pods/exec", "create")}  # asked for from Kubernetes 1.35 on
    assert granted - used == later
    assert used <= granted
    refused = {right(event) for event in events if event["responseStatus"]["code"] == 403}
    assert refused <= {("", "nodes", "list")}  # where a pod finds no node, to say more of it to who may know


def right(event: dict[str, Any]) -> tuple[str, str, str]:
    """The right that a request takes, as RBAC names it."""
    what = event["objectRef"]
    resource = "/".join(filter(None, (what["resource"], what.get("subresource"))))
    return what.get("apiGroup", ""), resource, event["verb"]


def loaded(sweep: ClusterSweep) -> list[dict[str, Any]]:
    """Its cells."""
    return [json.loads(path.read_bytes()) for path in sweep.cells()]
