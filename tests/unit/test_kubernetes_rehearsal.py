# SPDX-License-Identifier: Apache-2.0
"""What a sweep is asked of its cluster before anything is deployed."""

import itertools
from pathlib import Path

import yaml
from kubernetes.client import V1ResourceQuota
from tpcsweep.configuration.loading import load
from tpcsweep.testbeds.kubernetes import rehearsal, testbed

from tests.support.workflow import ROOT


def test_the_rights_that_are_asked_for_are_those_of_the_shipped_role() -> None:
    rules = list(yaml.safe_load_all(Path(ROOT, "config/kubernetes/rbac.yaml").read_text()))[1]["rules"]
    parts = ("apiGroups", "resources", "verbs")
    granted = {right for rule in rules for right in itertools.product(*(rule[part] for part in parts))}
    asked = {(*of, verb) for of, verbs in rehearsal.RIGHTS.items() for verb in verbs.split()}
    assert granted - asked == {("", "pods/exec", "create")}  # from Kubernetes 1.35 on
    assert asked <= granted


def test_each_distinct_pod_is_rehearsed_once_and_quotas_are_held_to_the_largest_deployment() -> None:
    study = load({"sweep": "local", "testbed": "local"}, ROOT)
    pairs = study.testbed.pairs  # type: ignore[union-attr]
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


def test_objects_that_are_printed_are_whole() -> None:
    made = testbed.manifests(load({"sweep": "local", "testbed": "local"}, ROOT))
    assert {each["kind"] for each in made} == {"Job"}
    assert all(each["spec"]["template"]["spec"]["containers"] for each in made)
