# SPDX-License-Identifier: Apache-2.0
"""Which deployments are leftovers, and which of two has nodes that both chose."""

import os
from typing import Any

import psutil
import pytest
import yaml
from kubernetes.client import V1Job
from tpcsweep.testbeds.kubernetes import state
from tpcsweep.testbeds.kubernetes.metadata import NODES, PROCESS, Naming
from tpcsweep.testbeds.kubernetes.objects import words

from tests.support.played_api import PlayedApi
from tests.support.workflow import ROOT

ENDED = 2**22 + 1  # no process has a larger PID than 2**22


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
    [(identifier, whose)] = state.leftovers(server.cluster()).items()
    assert identifier == "bbbbbb"
    assert whose.startswith("bbbbbb: rtt=20 of sweep a sweep by ")
    assert state.reap(server.cluster()) == [whose]
    assert state.leftovers(server.cluster()) == {}
    assert server.get("jobs", "tpc-aaaaaa")


@pytest.mark.parametrize(
    ("other", "created", "earlier"),
    [
        ("bbbbbb", "2026-01-01T00:00:01Z", False),
        ("bbbbbb", "2025-12-31T23:59:59Z", True),
        ("bbbbbb", "2026-01-01T00:00:00Z", True),
    ],
)
def test_of_two_deployments_on_the_same_nodes_only_one_that_is_older_in_whole_seconds_stays(
    other: str, created: str, earlier: bool
) -> None:
    ours = job("aaaaaa", **{NODES: "n1\nn2"})
    jobs = [V1Job.model_validate(each) for each in (ours, job(other, created, **{NODES: "n2\nn3"}))]
    assert bool(state.users(jobs, ["n1", "n2"], before=jobs[0])) is earlier
    assert len(state.users(jobs, ["n2"])) == 2
    assert state.users(jobs, ["n4"]) == []


def test_no_right_of_the_role_shows_a_secret() -> None:
    """Whoever may delete Secrets, one or many, is answered with what would be deleted in a dry run."""
    documents = yaml.safe_load_all((ROOT / "config/kubernetes/rbac.yaml").read_text())
    rules = [rule for document in documents for rule in document.get("rules", [])]
    assert [rule["verbs"] for rule in rules if {"secrets", "*"} & set(rule["resources"])] == [["create"]]
