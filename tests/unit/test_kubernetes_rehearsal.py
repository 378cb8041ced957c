# SPDX-License-Identifier: Apache-2.0
"""What a sweep asks of its cluster before anything is deployed, and the deployments of others that it finds there."""

import os
from typing import Any

import psutil
import pytest
import yaml
from kubernetes.client import V1Job, V1ResourceQuota
from tpcsweep.testbeds.kubernetes import deployments, rehearsal
from tpcsweep.testbeds.kubernetes.api import RefusedError
from tpcsweep.testbeds.kubernetes.metadata import NODES, PROCESS, Naming
from tpcsweep.testbeds.kubernetes.objects import words
from tpcsweep.testbeds.loading import load

from tests.support.played_api import PlayedApi
from tests.support.testbeds import kubernetes
from tests.support.workflow import ROOT

ENDED = 2**22 + 1  # no process has a larger PID than 2**22


def test_no_right_of_the_shipped_role_shows_a_secret() -> None:
    documents = yaml.safe_load_all((ROOT / rehearsal.ROLE).read_text())
    rules = [rule for document in documents for rule in document.get("rules", [])]
    # Whoever may delete Secrets, one or many, is answered with what would be deleted in a dry run.
    assert [rule["verbs"] for rule in rules if {"secrets", "*"} & set(rule["resources"])] == [["create"]]


def test_each_distinct_pod_is_rehearsed_once_and_quotas_are_held_to_the_largest_deployment() -> None:
    study = load({"sweep": "local", "testbed": "local"}, ROOT)
    pairs = study.testbed.pairs
    names = [name for name, _ in rehearsal.distinct_jobs(study, pairs)]
    # One client; two values of cores on two pairs of nodes, whose sources are one.
    assert names.count("pod client") == 1
    assert len({name for name in names if name.startswith("pod src1")}) == 2
    asked = rehearsal.usage(job for _, job in rehearsal.distinct_jobs(study, pairs[:1]))
    assert asked["pods"] == 5
    quota = V1ResourceQuota.model_validate(
        {"status": {"hard": {"pods": "5", "limits.memory": "1Gi", "services": "0"}, "used": {"pods": "1"}}}
    )
    pods, memory = rehearsal.exceeded(quota, asked)
    assert pods == "pods: 5 asked, 1 of 5 used"
    assert memory.startswith("limits.memory: ")


def test_no_pod_is_made_to_see_whether_nodes_can_be_kept_from_all_namespaces(server: PlayedApi) -> None:
    naming = Naming("aaaaaa", "a sweep", "rtt=20")
    assert rehearsal.within_quota(server.cluster(), kubernetes(), naming).everywhere
    assert [verb for verb, *_ in server.asked] == ["POST"]
    assert server.get("pods", "tpc-aaaaaa") is None
    # What keeps pods from being made at all is raised.
    for status in (403, 404):
        server.refuse = lambda _, status=status: status
        with pytest.raises(RefusedError, match="refused"):
            rehearsal.within_quota(server.cluster(), kubernetes(), naming)


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
