# SPDX-License-Identifier: Apache-2.0
"""What a sweep says, and leaves, when its cluster goes wrong under it: faults that are made, not played."""

import contextlib
import dataclasses
import itertools
import re
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tpcsweep.measuring.looks import LONGEST_GAP
from tpcsweep.testbeds.kubernetes.pod import agent
from tpcsweep.testbeds.kubernetes.pod.watched import FOLDER

from tests.cluster import local
from tests.cluster.relay import Relay
from tests.cluster.sweeps import ACCOUNT, LASTING, LONGEST, ONE, QUICK, Space, account, local_testbed

BEGUN = f"""
import os, pathlib, signal, time
while not any(pathlib.Path("{FOLDER}").glob("%s.*")):
    time.sleep(0.05)
"""
"""Until a cell brings its first file."""
KILL = f"""{BEGUN % "c1"}
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    if (folder / "comm").read_text() == "xrootd\\n":
        os.kill(int(folder.name), signal.SIGSEGV)
"""
"""As the second cell brings its first file, in the third deployment: it was broken in the first one."""
INTO = 1.5
AWAY = 3.0
SILENT = 20.0  # seconds for which it answers nobody
STALLED = 33.0  # seconds for which it takes what it is sent and says nothing


def inside(cluster: local.Cluster, namespace: Space, pod: str, script: str) -> None:
    """Run a script of Python among a pod's servers."""
    command = ["exec", f"--namespace={namespace.name}", pod, "--container=servers", "--"]
    cluster.kubectl(*command, "/usr/bin/python3", "-c", script, timeout=LONGEST)


def test_api_server_may_restart_and_stall(cluster: local.Cluster, namespace: Space, tmp_path: Path) -> None:
    """It stalls for this run alone: a cluster whose server stalls for everybody takes its nodes for gone."""
    with Relay(cluster.kubeconfig, tmp_path) as relay:
        own = dataclasses.replace(namespace, kubeconfig=relay.kubeconfig)
        measurement = {"min_time": "48 s", "max_time": "48 s"}
        sweep = own.sweep(tmp_path, local_testbed(own.name), measurement=measurement, parameters=ONE)
        run = sweep.start("cells")
        sweep.wait_during(run, lambda: namespace.pods(side="dst"), "a destination")
        [server] = namespace.pods(side="dst")
        inside(cluster, namespace, server, BEGUN % "c0")
        cluster.restart_api_server(down_for=AWAY)
        with relay.stalled():
            time.sleep(STALLED)
        assert run.wait(LONGEST) == 0, sweep.output()
    assert "replacing" not in sweep.output()
    [cell] = sweep.good_records()
    times = cell["samples"]["time"]
    assert max(b - a for a, b in itertools.pairwise(times)) < AWAY
    assert times[-1] > AWAY + STALLED
    namespace.check_empty()


@pytest.mark.parametrize("until", [{"min_time": "12 s", "max_time": "12 s"}, QUICK], ids=["time", "files"])
def test_a_cell_that_ends_while_the_api_server_is_silent_is_as_any_other(
    cluster: local.Cluster, namespace: Space, tmp_path: Path, until: dict[str, Any]
) -> None:
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), measurement=until, parameters=ONE)
    run = sweep.start("cells")
    sweep.wait_during(run, lambda: namespace.pods(side="dst"), "a destination")
    [server] = namespace.pods(side="dst")
    inside(cluster, namespace, server, BEGUN % "c0")
    cluster.freeze_api_server(SILENT)
    assert run.wait(LONGEST) == 0, sweep.output()
    assert "replacing" not in sweep.output()
    [cell] = sweep.good_records()
    assert "monitoring_disagrees" not in cell["flags"]
    assert cell["summary"]["xrootd_share"] == pytest.approx(1, abs=0.01)
    duration = cell["summary"]["duration"]
    if until is QUICK:
        assert cell["summary"]["transfers"] == QUICK["files"]
        assert duration < SILENT
    else:
        assert duration == pytest.approx(12, abs=0.5)
    ends = cell["transfers"]["end"]
    assert max(ends) < duration + 1
    namespace.check_empty()


def test_pods_are_replaced_or_cost_one_cell(cluster: local.Cluster, namespace: Space, tmp_path: Path) -> None:
    """A client pod is deleted, an origin pod evicted, and a server killed, each in another deployment."""

    def deleted(pod: str) -> None:
        namespace.core.delete_namespaced_pod(pod, namespace.name, grace_period_seconds=0)

    def evicted(pod: str) -> None:
        namespace.core.create_namespaced_pod_eviction(pod, namespace.name, {"metadata": {"name": pod}})

    def replaced() -> list[str]:
        return [pod for pod in namespace.pods(side="dst") if pod not in pods]

    testbed, parameters = local_testbed(namespace.name), {**ONE, "streams": [*range(1, 6)]}
    sweep = namespace.sweep(tmp_path, testbed, measurement=LASTING, parameters=parameters)
    run = sweep.start("cells")
    pods = []
    origin = {"role": "origin", "side": "dst"}
    # One cell ends in each deployment before the next is under way.
    for ended, having, take_away in ((1, {"role": "client"}, deleted), (2, origin, evicted)):
        sweep.wait_for_cell(run, ended)
        time.sleep(INTO)
        [pod] = namespace.pods(**having)
        take_away(pod)
        pods.append(pod)
    sweep.wait_during(run, replaced, "another destination runs")
    [server] = replaced()
    # Before its first cell: on a busy machine it takes longer to get in than a cell lasts.
    try:
        inside(cluster, namespace, server, KILL)
    except local.ClusterError as error:  # its container may end before it has
        assert "exit code 137" in str(error)
    assert run.wait(LONGEST) == 0, sweep.output()
    namespace.check_empty()
    for pod, reason in zip(pods, ("Deleted: ", "EvictionByEvictionAPI: "), strict=True):
        assert re.search(rf"replacing .*: pod {pod}: {reason}", sweep.output()), sweep.output()
    cells = sorted(sweep.records(), key=lambda cell: str(cell["provenance"]["started"]))
    deployments = [cell["provenance"]["deployment"] for cell in cells]
    assert len(set(deployments)) == 4
    statuses = [cell["status"] for cell in cells]
    assert sorted(statuses) == ["failed", *["ok"] * 4]
    at = statuses.index("failed")
    assert deployments[at - 1] == deployments[at] != deployments[at + 1]
    words = rf"pod {server}: .*container servers ended .*xrootd ended with exit code -11"
    assert re.search(words, cells[at]["message"]), cells[at]["message"]
    assert cells[at]["flags"] == ["deployment_broken"]


def test_an_agent_that_stands_still_is_named_and_its_cell_measured_again(
    cluster: local.Cluster, namespace: Space, tmp_path: Path
) -> None:
    """Its pod and its connection stay: nothing but its samples are missing."""
    measurement = {"min_time": "30 s", "max_time": "30 s"}
    sweep = namespace.sweep(tmp_path, local_testbed(namespace.name), measurement=measurement, parameters=ONE)
    run = sweep.start("cells")
    sweep.wait_during(run, lambda: namespace.pods(side="dst"), "a destination")
    [pod] = namespace.pods(side="dst")
    inside(cluster, namespace, pod, BEGUN % "c0")
    [watching] = agents(pod)
    watching.suspend()
    time.sleep(LONGEST_GAP + INTO)
    watching.resume()
    assert run.wait(LONGEST) == 0, sweep.output()
    words = r"replacing .*: dst1: counters: their reader was stopped, .* \(no reading from \d"
    assert re.search(words, sweep.output()), sweep.output()
    [cell] = sweep.good_records()
    assert cell["samples"]["time"][-1] > 29.8
    namespace.check_empty()


def agents(pod: str) -> list[psutil.Process]:
    """The processes of a pod's agent, as this machine sees them: its nodes are here."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            if agent.__name__ in (process.info["cmdline"] or ()) and process.environ()["HOSTNAME"] == pod:
                found.append(process)
    return found


def test_credentials_that_end_in_a_cell(cluster: local.Cluster, tmp_path: Path) -> None:
    """Nobody is left who may tear down, as after kill -9: the cluster does it."""
    # More cells than a token outlives its account: the API server takes it for ten seconds more.
    parameters = {**ONE, "streams": [*range(1, 7)]}
    with account(cluster.kubeconfig, "tpcsweep-ending", tmp_path) as own:
        testbed = local_testbed(own.name, orphan_time="30 s")
        sweep = own.sweep(tmp_path, testbed, measurement=LASTING, parameters=parameters)
        run = sweep.measuring()
        time.sleep(INTO)
        own.core.delete_namespaced_service_account(ACCOUNT, own.name)
        assert run.wait(LONGEST) != 0
        assert "does not accept the credentials (401)" in sweep.output(), sweep.output()
        assert "jobs" in own.left()
        own.check_empty(LONGEST)  # the cluster collects it
