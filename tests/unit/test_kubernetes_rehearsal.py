# SPDX-License-Identifier: Apache-2.0
"""What a sweep asks of its cluster before anything is deployed, and the deployments of others that it finds there."""

import os
from typing import Any

import psutil
import pytest
import yaml
from kubernetes.client import V1Job, V1Pod, V1ResourceQuota
from tpcsweep.sweeps.parameters import DeploymentParameters
from tpcsweep.testbeds.kubernetes import deployments, faults, objects, rehearsal, short_pods
from tpcsweep.testbeds.kubernetes.metadata import NODES, PROCESS, Naming
from tpcsweep.testbeds.kubernetes.objects import words
from tpcsweep.testbeds.loading import load

from tests.support.played_api import PlayedApi
from tests.support.testbeds import kubernetes
from tests.support.workflow import ROOT

NAMING = Naming("abc123", "local", "rehearsal")
ENDED = 2**22 + 1  # no process has a larger PID than 2**22


def test_the_shipped_role_has_no_right_to_secrets() -> None:
    documents = yaml.safe_load_all((ROOT / rehearsal.ROLE).read_text())
    rules = [rule for document in documents for rule in document.get("rules", [])]
    assert [rule for rule in rules if {"secrets", "*"} & set(rule["resources"])] == []


def test_each_distinct_pod_is_rehearsed_once_and_quotas_are_held_to_the_largest_deployment() -> None:
    study = load({"sweep": "local", "testbed": "local"}, ROOT)
    planned = list(rehearsal.planned_deployments(study, study.testbed.pairs, NAMING))
    names = [each.subject for each in rehearsal.distinct_jobs(planned)]
    assert len(set(names)) == len(names)  # each names its pair and side
    # One client; two values of cores on two pairs of nodes, whose sources are one.
    assert [name for name in names if "client" in name] == ["pair 0 client"]
    assert len([name for name in names if name.startswith("pair 0 source, origin 1 (cores=")]) == 2
    deployment = [each.job for each in planned[0]]
    asked = rehearsal.usage([*deployment, *objects.other_objects(NAMING)])
    counts = {"pods": 3, "count/jobs.batch": 3, "configmaps": 1}
    assert counts.items() <= asked.items()
    quota = V1ResourceQuota.model_validate(
        {
            "status": {
                "hard": {
                    "pods": "3",
                    "limits.memory": "1Gi",
                    "services": "0",
                    "count/networkpolicies.networking.k8s.io": "0",
                    "configmaps": "2",
                },
                "used": {"pods": "1", "configmaps": "2"},
            }
        }
    )
    pods, memory, policies, archives = rehearsal.exceeded(quota, asked)
    assert pods == "pods: 3 asked, 1 of 3 used"
    assert memory.startswith("limits.memory: ")
    assert policies == "count/networkpolicies.networking.k8s.io: 1 asked, 0 of 0 used"
    assert archives == "configmaps: 1 asked, 2 of 2 used"
    # Before a run, what others use now is no reason to refuse it.
    assert len(rehearsal.exceeded(quota, asked, used=False)) == 2


def test_short_pods_are_tried_at_each_placement_with_the_most_cpu() -> None:
    study = load({"sweep": "local", "testbed": "local"}, ROOT)
    pairs = study.testbed.pairs
    planned = list(rehearsal.planned_deployments(study, pairs, NAMING))
    waves = short_pods.waves(rehearsal.distinct_jobs(planned))
    tried = [each for wave in waves for each in wave]
    # The sources of both pairs are one node.
    assert sorted((each.name, pairs.index(each.pair)) for each in tried) == [
        ("client", 0),
        ("dst1", 0),
        ("dst1", 1),
        ("src1", 0),
    ]
    most = max(each.wanted.cores or 0 for deployment in planned for each in deployment)
    assert {each.wanted.cores for each in tried if each.name != "client"} == {most}


def waiting(name: str, reason: str) -> dict[str, Any]:
    return _status(name, waiting={"reason": reason, "message": ""})


def ended(name: str, code: int) -> dict[str, Any]:
    return _status(name, terminated={"exitCode": code, "reason": "Error", "message": "the image lacks tc"})


def _status(name: str, **state: Any) -> dict[str, Any]:
    return {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}


SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
OUTCOMES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"conditions": [SCHEDULED | {"message": f"2 node(s) didn't match pod {faults.OCCUPIED}"}]},
        ["skipped", "skipped", "skipped", "skipped"],
    ),
    (
        {"conditions": [SCHEDULED | {"message": "untolerated taint"}]},
        ["skipped", "failed", "skipped", "skipped"],
    ),
    (
        {"containerStatuses": [waiting("servers", "ErrImageNeverPull")]},
        ["failed", "skipped", "skipped", "skipped"],
    ),
    (
        {"phase": "Failed", "initContainerStatuses": [ended("image-1", 1)]},
        ["failed", "skipped", "skipped", "skipped"],
    ),
    ({"phase": "Failed", "reason": "SysctlForbidden"}, ["skipped", "skipped", "failed", "skipped"]),
    ({"phase": "Failed", "reason": "OutOfcpu"}, ["skipped", "failed", "skipped", "skipped"]),
]


@pytest.mark.parametrize(("status", "expected"), OUTCOMES)
def test_what_a_pod_has_not_come_to_is_not_looked_at(status: dict[str, Any], expected: list[str]) -> None:
    study = load({"sweep": "local", "testbed": "local"}, ROOT)
    [[_, source, _], *_] = rehearsal.planned_deployments(study, study.testbed.pairs, NAMING)
    spec = {"containers": [{"name": "servers", "image": "i"}]}
    content = {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Pending", **status}}
    outcome = short_pods.pod_outcome(V1Pod.model_validate(content), 10.0)
    assert outcome
    rows = list(short_pods.rows(source, outcome))
    assert [row.check for row in rows] == list(short_pods.CHECKS)
    assert [row.status for row in rows] == expected
    assert all(row.reason for row in rows if row.status != "ok")


def test_the_report_of_a_server_is_compared_with_its_deployment() -> None:
    settings = kubernetes(congestion_controls=["bbr"], tcp_buffer="4 MiB")
    wanted = DeploymentParameters(congestion_control="bbr")
    name = "net.ipv4.tcp_congestion_control"
    report = {"sysctls": {name: "cubic"}, "releases": {"system": {"version": "5.5.3"}}}
    outcome = short_pods.server_outcome(settings, wanted, report)
    assert (outcome.check, outcome.status) == (short_pods.KERNEL, "failed")
    assert "name the nodes' own one first in congestion_controls" in outcome.reason
    report["sysctls"] = {name: "bbr"}
    assert short_pods.server_outcome(settings, wanted, report)[:3] == (
        short_pods.PROGRAMS,
        "ok",
        "XRootD 5.5.3",
    )
    report["releases"] = {"5.8.1": {"unusable": "the image has no /opt/xrootd/5.8.1"}}
    assert short_pods.server_outcome(settings, wanted, report)[:2] == (short_pods.PROGRAMS, "failed")


def test_each_lacking_right_is_named_before_anything_is_created(server: PlayedApi) -> None:
    [role] = [
        each for each in yaml.safe_load_all((ROOT / rehearsal.ROLE).read_text()) if each["kind"] == "Role"
    ]
    rules = [rule for rule in role["rules"] if rule["resources"] != ["resourcequotas"]]
    server.rules = rules
    assert rehearsal.lacking_rights(server.cluster()) == []
    server.rules = [rule for rule in rules if rule["resources"] != ["events"]]
    found, lacking = rehearsal.rights(server.cluster())
    assert lacking == ["list events"]
    assert (found.status, found.reason) == (
        "failed",
        "lacks list events: config/kubernetes/rbac.yaml grants them",
    )
    server.allowed = {("events", "list")}  # by a webhook
    assert rehearsal.lacking_rights(server.cluster()) == []
    server.refuse = lambda path: 403 if "authorization" in path else None
    assert rehearsal.rights(server.cluster())[0].status == "skipped"


def test_a_dry_run_names_each_object_that_would_be_refused(server: PlayedApi) -> None:
    study = load({"sweep": "local", "testbed": "local"}, ROOT)
    naming = Naming.new("", "rehearsal", study.testbed)
    planned = rehearsal.distinct_jobs(rehearsal.planned_deployments(study, study.testbed.pairs, naming))
    server.refuse = lambda path: 403 if path.endswith("/configmaps") else None
    found = rehearsal.policies(server.cluster(), planned, naming, ["create networkpolicies"])
    statuses = {subject: finding.status for subject, finding in found.items()}
    assert statuses.pop("ConfigMap") == "failed"
    assert statuses.pop("NetworkPolicy") == "skipped"
    assert set(statuses) == {each.subject for each in planned}
    assert set(statuses.values()) == {"ok"}
    assert all("dryRun=All" in path for verb, path, _ in server.asked if verb == "POST")


def job(identifier: str, created: str = "2026-01-01T00:00:00Z", **annotations: str) -> dict[str, Any]:
    naming = Naming(identifier, "a sweep", "rtt=20")
    meta = words(naming.meta(naming.prefix, role="client", annotations=annotations))
    return {"metadata": {**meta, "creationTimestamp": created}}


def test_a_deployment_of_this_machine_is_left_over_when_its_process_has_ended(server: PlayedApi) -> None:
    ours = job("aaaaaa")["metadata"]["annotations"][PROCESS]
    here, _, pid = ours.rpartition("/")
    assert int(pid) == os.getpid()
    processes = {"aaaaaa": ours, "bbbbbb": f"{here}/{ENDED}", "cccccc": f"elsewhere/1/{ENDED}", "dddddd": ""}
    for identifier, process in processes.items():
        server.put("jobs", job(identifier, **{PROCESS: process}))
    assert not psutil.pid_exists(ENDED)
    [(identifier, whose)] = deployments.leftovers(server.cluster()).items()
    assert identifier == "bbbbbb"
    assert whose.startswith("bbbbbb: rtt=20 of sweep a sweep by ")
    assert deployments.reap(server.cluster()) == [whose]
    assert deployments.leftovers(server.cluster()) == {}
    assert server.get("jobs", "tpc-aaaaaa")


@pytest.mark.parametrize(
    ("created", "earlier"),
    [("2026-01-01T00:00:01Z", False), ("2025-12-31T23:59:59Z", True), ("2026-01-01T00:00:00Z", True)],
)
def test_of_two_deployments_on_the_same_nodes_only_one_that_is_older_in_whole_seconds_stays(
    created: str, earlier: bool
) -> None:
    ours = job("aaaaaa", **{NODES: "n1\nn2"})
    jobs = [V1Job.model_validate(each) for each in (ours, job("bbbbbb", created, **{NODES: "n2\nn3"}))]
    assert bool(deployments.users(jobs, ["n1", "n2"], before=jobs[0])) is earlier
    assert len(deployments.users(jobs, ["n2"])) == 2
    assert deployments.users(jobs, ["n4"]) == []
